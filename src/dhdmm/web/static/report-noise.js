// The exact discrete Gaussian of dhdmm/privacy/gaussian.py, draw for draw: docs/noise.md has the proof.
//
// Every comparison is decided in integers (BigInt), where each rounding goes a known way. One test in floating
// point answers early where its answer is certain: it uses sums and products alone, which IEEE 754 rounds alike everywhere.

const BLOCKS_PER_SIGMA = 32n;
const U_BITS = 63n; // of a proposal's first word; its last bit is the sign
const V_BITS = 32n; // the upper half of the second word; the offset is in the lower half
const V_MARGIN = 2 ** -31; // > 2⁻³² (the unknown bits of V) + 2⁻⁴⁰ (all rounding of floats)
const PROPOSALS = 4096; // read at a time
const EXTENSION_BYTES = 64;

/** The words that noise is made of: AES-256 in counter mode under a secret of 32 bytes. */
export class KeyStream {
  static async of(secret) {
    const stream = new KeyStream();
    stream.words = await cipher(await derive(secret, "words"));
    stream.extensions = await cipher(await derive(secret, "extension"));
    stream.position = 0; // in words, always even: a block of AES has two
    return stream;
  }

  static fresh() {
    return KeyStream.of(crypto.getRandomValues(new Uint8Array(32)));
  }

  /** The next words, an even number of them. */
  async read(count) {
    const octets = await keystream(this.words, BigInt(this.position / 2), 8 * count);
    this.position += count;
    return new BigUint64Array(octets);
  }

  /** The words behind the one at `position`, from the first on. */
  async *extension(position) {
    for (let block = 0n; ; block += BigInt(EXTENSION_BYTES / 16)) {
      const first = (BigInt(position) << 64n) + block;
      yield* new BigUint64Array(await keystream(this.extensions, first, EXTENSION_BYTES));
    }
  }
}

/** `count` draws of N_Z(0, numerator/denominator), as BigInt. */
export async function sample(count, [numerator, denominator], stream) {
  const variance = [BigInt(numerator), BigInt(denominator)];
  const bits = blockBits(variance);
  const each = bits ? 2 : 1;
  const ends = blockEnds(variance, U_BITS);
  const inverse = Number(variance[1]) / (2 * Number(variance[0]));
  const drawn = [];
  while (drawn.length < count) {
    const first = stream.position;
    const words = await stream.read(PROPOSALS * each);
    for (let i = 0; i < words.length && drawn.length < count; i += each) {
      let x = await block(variance, ends, words[i], () => stream.extension(first + i));
      if (bits) {
        const start = x << bits;
        x = start + (words[i + 1] & ((1n << bits) - 1n));
        const more = () => stream.extension(first + i + 1);
        if (!(await isBelow(variance, inverse, start, x, words[i + 1] >> V_BITS, more))) continue;
      }
      const negative = words[i] & 1n;
      if (x || !negative) drawn.push(negative ? -x : x);
    }
  }
  return drawn;
}

/** b: the largest with 32·2ᵇ ≤ σ, 0 if there is none. */
function blockBits([numerator, denominator]) {
  const whole = numerator / (denominator * BLOCKS_PER_SIGMA ** 2n);
  const length = whole ? whole.toString(2).length : 0;
  return BigInt(Math.max(0, length - 1) >> 1);
}

/** The block of U, of which a word holds the first bits. */
async function block(variance, ends, word, extension) {
  let [u, bits] = [word >> 1n, U_BITS];
  let more = null;
  for (;;) {
    const q = above(ends, u);
    if (q === 0 || ends[q - 1] < u) return BigInt(q);
    more ??= extension();
    [u, bits] = [(u << 64n) | (await more.next()).value, bits + 64n];
    ends = blockEnds(variance, bits);
  }
}

/** Whether V < exp(−t) for t = (x² − start²)/2σ², of which v holds the first bits. */
async function isBelow([numerator, denominator], inverse, start, x, v, extension) {
  const t = Number(x - start) * Number(x + start) * inverse;
  if (Number(v) * 2 ** -32 + V_MARGIN <= 1 - t) return true; // 1 − t ≤ exp(−t)
  const exact = [(x * x - start * start) * denominator, 2n * numerator];
  let bits = V_BITS;
  let more = null;
  for (;;) {
    const [low, high] = exponentialBounds(exact, bits);
    if (v + 1n <= low) return true;
    if (v >= high) return false;
    more ??= extension();
    [v, bits] = [(v << 64n) | (await more.next()).value, bits + 64n];
  }
}

/** ⌊2^bits · Pr[block ≤ q]⌋ for q = 0, 1, … up to the first that is 2^bits − 1. */
function blockEnds(variance, bits) {
  for (let precision = bits + 64n; ; precision += 64n) {
    const ends = endsAtPrecision(variance, bits, precision);
    if (ends) return ends;
  }
}

function endsAtPrecision(variance, bits, precision) {
  const { lows, highs, rest } = weightSums(variance, precision);
  const [lowest, highest] = [lows.at(-1), highs.at(-1) + rest];
  const largest = (1n << bits) - 1n;
  const ends = [];
  for (let q = 0; q < lows.length; q++) {
    const lower = (lows[q] << bits) / highest;
    const upper = (highs[q] << bits) / lowest;
    if (lower !== (upper < largest ? upper : largest)) return null;
    ends.push(lower);
    if (lower === largest) return ends;
  }
  return null;
}

/** Bounds on 1 + g + g⁴ + … + g^(q²) for q = 0, 1, … in units of 2^−precision, and on what is left. */
function weightSums([numerator, denominator], precision) {
  const width = 1n << blockBits([numerator, denominator]);
  let [lowRatio, highRatio] = exponentialBounds([width * width * denominator, 2n * numerator], precision);
  const lowSquare = (lowRatio * lowRatio) >> precision;
  const highSquare = ceilShift(highRatio * highRatio, precision);
  let lowWeight = 1n << precision;
  let highWeight = lowWeight;
  const [lows, highs] = [[], []];
  while (highWeight > 1n << 16n) {
    lows.push((lows.at(-1) ?? 0n) + lowWeight);
    highs.push((highs.at(-1) ?? 0n) + highWeight);
    lowWeight = (lowWeight * lowRatio) >> precision;
    highWeight = ceilShift(highWeight * highRatio, precision);
    lowRatio = (lowRatio * lowSquare) >> precision;
    highRatio = ceilShift(highRatio * highSquare, precision);
  }
  const rest = ceilDivide(highWeight << precision, (1n << precision) - highRatio);
  return { lows, highs, rest };
}

/** Integers low ≤ 2^bits · exp(−t) ≤ high for t = numerator/denominator ≥ 0. */
function exponentialBounds([numerator, denominator], bits) {
  const whole = numerator / denominator;
  const h = 8n + (whole ? BigInt(whole.toString(2).length) : 0n); // t/2ʰ ≤ 1/256
  const precision = bits + h + 16n;
  let low = 1n << precision;
  let [high, lowTerm, highTerm] = [low, low, low];
  for (let k = 1n; highTerm > 1n; k++) {
    const divisor = (k * denominator) << h;
    lowTerm = (lowTerm * numerator) / divisor;
    highTerm = ceilDivide(highTerm * numerator, divisor);
    low += lowTerm;
    high += highTerm;
  }
  high += highTerm; // every further term is below half of the one before
  for (let i = 0n; i < h; i++) {
    low = (low * low) >> precision;
    high = ceilShift(high * high, precision);
  }
  const one = 1n << (bits + precision);
  return [one / high, ceilDivide(one, low)];
}

const ceilShift = (a, bits) => -(-a >> bits);
const ceilDivide = (a, b) => (a + b - 1n) / b; // of numbers that are not negative

/** How many of the ascending numbers are at most x. */
function above(ascending, x) {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** HKDF-Expand (RFC 5869) with SHA-256, one block. */
async function derive(secret, purpose) {
  const info = new TextEncoder().encode(`dhdmm noise v1:${purpose}:`);
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return crypto.subtle.sign("HMAC", key, new Uint8Array([...info, 1]));
}

const cipher = (key) => crypto.subtle.importKey("raw", key, "AES-CTR", false, ["encrypt"]);

function keystream(key, firstBlock, size) {
  const counter = new DataView(new ArrayBuffer(16));
  counter.setBigUint64(0, firstBlock >> 64n);
  counter.setBigUint64(8, firstBlock & 0xffffffffffffffffn);
  return crypto.subtle.encrypt({ name: "AES-CTR", counter, length: 128 }, key, new Uint8Array(size));
}
