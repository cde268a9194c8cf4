// Bytes: put together, written and read, hashed, and vectors modulo 2ᵇ packed (docs/protocol.md).

export function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export const text = (words) => new TextEncoder().encode(words);
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const fromHex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
}

/** ASCII text filled with zero bytes to 16. */
export function label(words) {
  const filled = new Uint8Array(16);
  filled.set(text(words));
  return filled;
}

/** A number in 4 bytes, big-endian. */
export function u32(value) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

/** Bytes after their length. */
export const counted = (bytes) => joined(u32(bytes.length), bytes);

/** F(seed): words of AES-128-CTR, of which the low bits count, as residues modulo 2^bits. */
export async function stream(seed, length, bits) {
  const key = await crypto.subtle.importKey("raw", seed.subarray(0, 16), "AES-CTR", false, ["encrypt"]);
  const size = bits <= 32 ? 4 : 8;
  const counter = seed.subarray(16, 32);
  const zeros = new Uint8Array(size * length);
  const octets = await crypto.subtle.encrypt({ name: "AES-CTR", counter, length: 128 }, key, zeros);
  const words = size === 4 ? Array.from(new Uint32Array(octets), BigInt) : [...new BigUint64Array(octets)];
  return words.map((word) => BigInt.asUintN(bits, word));
}

/** Bits of every residue, from runs: count, bits, count, bits, … */
export function bitsOf(runs) {
  const found = [];
  for (let i = 0; i < runs.length; i += 2) found.push(...Array(runs[i]).fill(runs[i + 1]));
  return found;
}

/** Residues that are sent in so many bits each: those with the fewest first, each number of bits packed by itself. */
export function packByBits(residues, bits) {
  const numbers = [...new Set(bits)].sort((a, b) => a - b);
  return joined(...numbers.map((own) => pack(residues.filter((_, i) => bits[i] === own), own)));
}

/** Residues as planes: all lowest bytes, all next bytes, …, then the left-over bits, one plane a bit. */
export function pack(residues, bits) {
  const whole = bits >> 3;
  const plane = Math.ceil(residues.length / 8);
  const packed = new Uint8Array(residues.length * whole + (bits & 7) * plane);
  residues.forEach((residue, i) => {
    for (let byte = 0; byte < whole; byte++) packed[byte * residues.length + i] = Number((residue >> BigInt(8 * byte)) & 255n);
    for (let bit = 8 * whole; bit < bits; bit++) {
      const at = residues.length * whole + (bit - 8 * whole) * plane + (i >> 3);
      packed[at] |= Number((residue >> BigInt(bit)) & 1n) << (i & 7);
    }
  });
  return packed;
}
