// A plan as its bytes: CBOR (RFC 8949) with definite lengths, and the strategy in it (dhdmm/strategy/encoding.py).
// Nothing in it is believed; what is not understood is refused.

import { joined } from "./report-bytes.js";

export class Refusal extends Error {}

export function require(holds, otherwise) {
  if (!holds) throw new Refusal(otherwise);
}

/** The value that these bytes encode: numbers as BigInt or Number, byte strings, texts, arrays, maps. */
export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (count) => {
    require(count <= bytes.length - at, "The plan ends too early.");
    at += count;
    return bytes.subarray(at - count, at);
  };
  const argument = (small) => {
    if (small < 24) return small;
    require(small < 28, "The plan has an encoding that is not known here.");
    const size = 1 << (small - 24);
    const start = at;
    take(size);
    if (size === 8) return exact(view.getBigUint64(start));
    return size === 1 ? view.getUint8(start) : size === 2 ? view.getUint16(start) : view.getUint32(start);
  };
  const value = () => {
    const [first] = take(1);
    const [major, small] = [first >> 5, first & 31];
    if (major === 7) {
      require(small >= 20 && small <= 22, "The plan has an encoding that is not known here.");
      return [false, true, null][small - 20];
    }
    const count = argument(small);
    if (major === 0) return count;
    if (major === 1) return exact(-1n - BigInt(count));
    if (major === 2) return take(count);
    if (major === 3) return new TextDecoder("utf-8", { fatal: true }).decode(take(count));
    if (major === 4) return Array.from({ length: count }, value);
    if (major === 5) return new Map(Array.from({ length: count }, () => [value(), value()]));
    require(count === 2 || count === 3, "The plan has an encoding that is not known here.");
    const large = value().reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
    return count === 2 ? large : -1n - large;
  };
  const found = value();
  require(at === bytes.length, "There is something after the plan's end.");
  return found;
}

/** The entries of an encoded map, as they are encoded: name → bytes of the value. */
export function entries(bytes) {
  const found = new Map();
  let at = 0;
  const next = () => {
    const start = at;
    at = end(bytes, at);
    return bytes.subarray(start, at);
  };
  const [first] = bytes;
  require(first >> 5 === 5 && (first & 31) < 24, "This is no plan.");
  at = 1;
  for (let i = 0; i < (first & 31); i++) {
    const name = decode(next());
    found.set(name, next());
  }
  require(at === bytes.length, "There is something after the plan's end.");
  return found;
}

/** Where the value that begins here ends: a head, and what its argument counts. */
function end(bytes, at) {
  const [major, small] = [bytes[at] >> 5, bytes[at] & 31];
  const size = small < 24 ? 0 : 1 << (small - 24);
  let count = small < 24 ? small : 0;
  for (let i = 1; i <= size; i++) count = count * 256 + bytes[at + i];
  at += 1 + size;
  require(small < 28 && at <= bytes.length, "The plan ends too early.");
  if (major === 2 || major === 3) at += count;
  const values = { 4: count, 5: 2 * count, 6: 1 }[major] ?? 0;
  for (let i = 0; i < values; i++) at = end(bytes, at);
  require(at <= bytes.length, "The plan ends too early.");
  return at;
}

/** The canonical encoding of a map: shorter names first, then by their letters. */
export function encodeMap(encoded) {
  const utf8 = new TextEncoder();
  const names = [...encoded.keys()].sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
  require(names.length < 24 && names.every((name) => name.length < 24), "This is no plan.");
  const parts = [Uint8Array.of(0xa0 + names.length)];
  for (const name of names) parts.push(Uint8Array.of(0x60 + name.length), utf8.encode(name), encoded.get(name));
  return joined(...parts);
}

const exact = (big) => (-(2n ** 53n) < big && big < 2n ** 53n ? Number(big) : big);

/** An array of integers: a width, then every entry's zigzag code in so many bits, least significant first. */
function unpack(data, count) {
  const width = data[0];
  require(width <= 42 && data.length === 1 + Math.ceil((count * width) / 8), "An array of the strategy has another length.");
  const found = new Array(count);
  for (let i = 0, bit = 8; i < count; i++) {
    let code = 0;
    for (let j = 0; j < width; j++, bit++) code += ((data[bit >> 3] >> (bit & 7)) & 1) * 2 ** j;
    found[i] = code % 2 ? -(code + 1) / 2 : code / 2;
  }
  return found;
}

/** The integer strategy A′ of a plan, of which one column at a time is written out. */
export class Strategy {
  constructor(bytes) {
    const [magic, version, axes, blocks] = decode(bytes);
    require(new TextDecoder().decode(magic) === "dhdmm strategy", "There is no strategy in the plan.");
    require([1, 3].includes(version), `The strategy is of format ${version}, which this page does not know.`);
    this.axes = axes.map(readAxis);
    this.blocks = blocks.map((block) => readBlock(block, this.axes));
    this.rows = this.blocks.reduce((sum, { rows }) => sum + rows, 0);
  }

  /** What one record adds to every row, as BigInt: `codes` has the number of its value of every attribute. */
  column(codes) {
    require(codes.length === this.axes.length, "A record has one value of every attribute.");
    const merged = this.axes.map((axis, a) => axis.merged[codes[a]]);
    const orbits = this.axes.map((axis, a) => axis.orbit[merged[a]]);
    require(merged.every((value) => value !== undefined), "A value is none of its attribute.");
    return this.blocks.flatMap(({ residuals, sides }) => {
      const factors = [
        ...sides.map((side) => side.at(orbits)),
        ...residuals.map((residual) => residual.at(merged[residual.attribute])),
      ];
      return factors.reduce((rows, factor) => rows.flatMap((row) => factor.map((entry) => row * entry)), [1n]);
    });
  }
}

function readAxis([values, merged, orbits, toMerged, toOrbit, count, extra, nested = [1, []], places = []]) {
  const flat = unpack(extra, count * orbits).map(BigInt);
  const orbit = unpack(toOrbit, merged);
  const [levels, written] = nested;
  const sizes = Array(orbits).fill(0);
  const inOrder = orbit.map((of) => sizes[of]++);
  return {
    merged: unpack(toMerged, values),
    orbit,
    orbits,
    /** Children of every node, by orbit and level; and the position of every merged value in its orbit. */
    shapes: written.length ? unpack(written, orbits * levels) : sizes,
    levels,
    places: places.length ? unpack(places, merged) : inOrder,
    /** Vector 0 is all ones, then there is one for every orbit, then come those that are written down. */
    entry: (number, orbit) => {
      if (number === 0) return 1n;
      if (number <= orbits) return number - 1 === orbit ? 1n : 0n;
      return flat[(number - 1 - orbits) * orbits + orbit];
    },
  };
}

function readBlock([residuals, sides, [copies] = [0]], axes) {
  require(copies === 0, "The strategy has copies of a block, which this page does not know.");
  const block = {
    residuals: residuals.map((residual) => new Residual(residual, axes)),
    sides: sides.map((side) => new Side(side, axes)),
  };
  block.rows = [...block.sides, ...block.residuals].reduce((product, { rows }) => product * rows, 1);
  return block;
}

/** T·B over some axes; T is upper triangular, and rows of B are sums of products of the axes' vectors. */
class Side {
  constructor([held, [rows, products], lengths, coefficients, ids, T], axes) {
    Object.assign(this, { held, rows, axes });
    const plain = lengths.length === 0;
    require(!plain || rows === products, "A side of the strategy has another size.");
    this.lengths = plain ? Array(rows).fill(1) : unpack(lengths, rows);
    this.coefficients = plain ? Array(rows).fill(1n) : unpack(coefficients, products).map(BigInt);
    this.ids = unpack(ids, products * held.length);
    this.T = unpack(T, (rows * (rows + 1)) / 2);
  }

  at(orbits) {
    const product = (i) =>
      this.held.reduce(
        (value, a, place) => value && value * this.axes[a].entry(this.ids[i * this.held.length + place], orbits[a]),
        this.coefficients[i],
      );
    let next = 0;
    const B = this.lengths.map((length) => {
      let sum = 0n;
      for (const end = next + length; next < end; next++) sum += product(next);
      return sum;
    });
    const counted = B.flatMap((value, row) => (value ? [row] : []));
    return B.map((_, row) => {
      const start = row * this.rows - (row * (row - 1)) / 2 - row; // of this row's entries, less its first column
      let sum = 0n;
      for (const column of counted) if (column >= row) sum += BigInt(this.T[start + column]) * B[column];
      return sum;
    });
  }
}

/** A contrast E = [pI − qJ | −r·1] over the children of each node of one level of an orbit, or over all merged values. */
class Residual {
  constructor([attribute, part, p, q], axes) {
    const axis = axes[attribute];
    const [level, orbit] = [Math.floor((part - 1) / axis.orbits), (part - 1) % axis.orbits];
    const shape = part === 0 ? [axis.orbit.length] : axis.shapes.slice(orbit * axis.levels, (orbit + 1) * axis.levels);
    const product = (numbers) => numbers.reduce((found, number) => found * number, 1);
    const at = part === 0 ? 0 : level;
    this.attribute = attribute;
    this.children = shape[at];
    this.inner = product(shape.slice(at + 1));
    this.rows = product(shape.slice(0, at)) * (this.children - 1);
    this.place = (value) => (part === 0 ? value : axis.orbit[value] === orbit ? axis.places[value] : undefined);
    [this.p, this.q] = [BigInt(p), BigInt(q)];
  }

  at(value) {
    const found = Array(this.rows).fill(0n);
    const place = this.place(value);
    if (place === undefined) return found;
    const last = this.children - 1;
    const [node, child] = [Math.floor(place / this.inner / this.children), Math.floor(place / this.inner) % this.children];
    found.fill(child === last ? this.q * BigInt(last) - this.p : -this.q, node * last, (node + 1) * last);
    if (child !== last) found[node * last + child] += this.p;
    return found;
  }
}
