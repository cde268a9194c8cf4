// HPKE (RFC 9180) in its base mode, for one message, with HKDF-SHA256 and AES-256-GCM. The key is encapsulated by
// X25519 (DHKEM of RFC 9180), or by X25519 and ML-KEM-768 together (X-Wing), whichever the plan names.

import { joined, text } from "./report-bytes.js";
import { sha3 } from "./report-sha3.js";

const [KEY_BYTES, NONCE_BYTES, SECRET_BYTES] = [32, 12, 32];
const [X25519_BYTES, ML_KEM_BYTES] = [32, 1184];
const EMPTY = new Uint8Array(0);

/** Ways to encapsulate: their number in RFC 9180's registry, and what gives { secret, enc }. */
const KEMS = {
  "X25519": { number: 0x0020, encapsulate: dhkem, uses: ["X25519"] },
  "MLKEM768-X25519": { number: 0x647a, encapsulate: xwing, uses: ["X25519", "ML-KEM-768"] },
};
const KEY_USAGES = { "X25519": ["deriveBits"], "ML-KEM-768": ["encapsulateBits", "decapsulateBits"] };

/** The algorithms that sealing takes and this browser has not. */
export async function missing(kem) {
  const lacking = await Promise.all(
    KEMS[kem].uses.map((name) =>
      crypto.subtle.generateKey(name, false, KEY_USAGES[name]).then(
        () => [],
        () => [name],
      ),
    ),
  );
  return lacking.flat();
}

/** enc ‖ ciphertext, which only the holder of the secret key opens, and only with the same info. */
export async function seal(kem, publicKey, info, message) {
  const { number: id, encapsulate } = KEMS[kem];
  const { secret, enc } = await encapsulate(publicKey);
  const suite = joined(text("HPKE"), number(id), number(0x0001), number(0x0002));
  const [key, nonce] = await keyAndNonce(suite, secret, info);
  const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv: nonce }, cipher, message);
  return joined(enc, new Uint8Array(sealed));
}

/** RFC 9180, section 5.1: KeySchedule. */
async function keyAndNonce(suite, secret, info) {
  const pskId = await labeledExtract(suite, EMPTY, "psk_id_hash", EMPTY);
  const context = joined(new Uint8Array([0]), pskId, await labeledExtract(suite, EMPTY, "info_hash", info));
  const extracted = await labeledExtract(suite, secret, "secret", EMPTY);
  return [
    await labeledExpand(suite, extracted, "key", context, KEY_BYTES),
    await labeledExpand(suite, extracted, "base_nonce", context, NONCE_BYTES),
  ];
}

/** RFC 9180, section 4.1. */
async function dhkem(publicKey) {
  const { dh, enc } = await x25519(publicKey);
  const suite = joined(text("KEM"), number(KEMS.X25519.number));
  const extracted = await labeledExtract(suite, EMPTY, "eae_prk", dh);
  const secret = await labeledExpand(suite, extracted, "shared_secret", joined(enc, publicKey), SECRET_BYTES);
  return { secret, enc };
}

/** draft-connolly-cfrg-xwing-kem: the public key is that of ML-KEM, then that of X25519. */
async function xwing(publicKey) {
  const [lattice, curve] = [publicKey.subarray(0, ML_KEM_BYTES), publicKey.subarray(ML_KEM_BYTES)];
  const key = await crypto.subtle.importKey("raw-public", lattice, "ML-KEM-768", false, ["encapsulateBits"]);
  const { sharedKey, ciphertext } = await crypto.subtle.encapsulateBits("ML-KEM-768", key);
  const { dh, enc } = await x25519(curve);
  const secret = sha3(joined(new Uint8Array(sharedKey), dh, enc, curve, text("\\.//^\\")));
  return { secret, enc: joined(new Uint8Array(ciphertext), enc) };
}

async function x25519(publicKey) {
  if (publicKey.length !== X25519_BYTES) throw new RangeError("a public key of another length");
  const own = await crypto.subtle.generateKey("X25519", false, ["deriveBits"]);
  const other = await crypto.subtle.importKey("raw", publicKey, "X25519", false, []);
  const dh = await crypto.subtle.deriveBits({ name: "X25519", public: other }, own.privateKey, 256);
  const enc = await crypto.subtle.exportKey("raw", own.publicKey);
  return { dh: new Uint8Array(dh), enc: new Uint8Array(enc) };
}

const labeledExtract = (suite, salt, label, material) =>
  hmac(salt.length ? salt : new Uint8Array(32), joined(text("HPKE-v1"), suite, text(label), material));

/** At most 32 bytes. */
async function labeledExpand(suite, key, label, info, length) {
  const whole = joined(number(length), text("HPKE-v1"), suite, text(label), info, new Uint8Array([1]));
  return (await hmac(key, whole)).subarray(0, length);
}

async function hmac(secret, message) {
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, message));
}

function number(value) {
  return new Uint8Array([value >> 8, value & 255]);
}
