// SHA3-256 (FIPS 202) of at most 135 bytes, one block of its sponge: WebCrypto has none yet.

const RATE = 136;
const LANES = 25;
const MASK = (1n << 64n) - 1n;

export function sha3(message) {
  if (message.length >= RATE) throw new RangeError("longer than one block");
  const block = new Uint8Array(8 * LANES);
  block.set(message);
  block[message.length] = 0x06;
  block[RATE - 1] |= 0x80;
  const view = new DataView(block.buffer);
  const state = Array.from({ length: LANES }, (_, i) => view.getBigUint64(8 * i, true));
  permute(state);
  state.slice(0, 4).forEach((lane, i) => view.setBigUint64(8 * i, lane, true));
  return block.slice(0, 32);
}

/** Keccak-f[1600]: lane (x, y) of the state is number x + 5y. */
function permute(state) {
  let register = 1;
  for (let round = 0; round < 24; round++) {
    theta(state);
    rhoPiChi(state);
    for (let j = 0; j < 7; j++) {
      if (register & 1) state[0] ^= 1n << BigInt((1 << j) - 1);
      register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    }
  }
}

function theta(state) {
  const column = (x) => [0, 5, 10, 15, 20].reduce((sum, y) => sum ^ state[(x % 5) + y], 0n);
  const sums = [0, 1, 2, 3, 4].map(column);
  for (let i = 0; i < LANES; i++) state[i] ^= sums[(i + 4) % 5] ^ rotate(sums[(i + 1) % 5], 1);
}

function rhoPiChi(state) {
  const moved = Array(LANES);
  moved[0] = state[0];
  for (let t = 0, x = 1, y = 0; t < 24; t++) {
    const lane = state[x + 5 * y];
    [x, y] = [y, (2 * x + 3 * y) % 5];
    moved[x + 5 * y] = rotate(lane, (((t + 1) * (t + 2)) / 2) % 64);
  }
  for (let i = 0; i < LANES; i++) {
    const row = i - (i % 5);
    state[i] = moved[i] ^ (~moved[row + ((i + 1) % 5)] & MASK & moved[row + ((i + 2) % 5)]);
  }
}

function rotate(lane, bits) {
  return ((lane << BigInt(bits)) | (lane >> BigInt(64 - bits))) & MASK;
}
