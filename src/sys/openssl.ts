import { Buffer } from "node:buffer";
import koffi from "koffi";
import { inThread } from "./libc.ts";

const SHA256_BYTES = 32;
const MD5_BYTES = 16;

/** The program that runs us: OpenSSL is part of Node, and Node shows it to those it loads. */
const node = koffi.load(null);

const SHA256 = node.func("void *SHA256(const uint8_t *data, size_t size, uint8_t *digest)");
const MD5 = node.func("void *MD5(const uint8_t *data, size_t size, uint8_t *digest)");
const EVP_sha256 = node.func("const void *EVP_sha256(void)");
const HMAC = node.func(
  "void *HMAC(const void *type, const uint8_t *key, int keySize, const uint8_t *data, " +
    "size_t size, uint8_t *digest, unsigned int *digestSize)",
);
const RAND_bytes = node.func("int RAND_bytes(uint8_t *bytes, int size)");

const SHA256_TYPE: unknown = EVP_sha256();

/**
 * What signing needs of OpenSSL, without `node:crypto`: to load that takes 10 ms, a tenth of an
 * engine's start, for many things that an engine never uses.
 */
export function sha256(data: string | Uint8Array): Buffer {
  const bytes = typeof data === "string" ? Buffer.from(data) : data;
  const digest = Buffer.allocUnsafe(SHA256_BYTES);
  if (SHA256(bytes, bytes.length, digest) === null) throw new Error("OpenSSL: SHA256 failed");
  return digest;
}

/** With a key that is not empty: OpenSSL takes that for the key of the last call. */
export function hmacSha256(key: string | Uint8Array, data: string): Buffer {
  const secret = typeof key === "string" ? Buffer.from(key) : key;
  const bytes = Buffer.from(data);
  const digest = Buffer.allocUnsafe(SHA256_BYTES);
  const done = HMAC(SHA256_TYPE, secret, secret.length, bytes, bytes.length, digest, null);
  if (done === null) throw new Error("OpenSSL: HMAC failed");
  return digest;
}

export function md5(data: Uint8Array): Buffer {
  const digest = Buffer.allocUnsafe(MD5_BYTES);
  if (MD5(data, data.length, digest) === null) throw new Error("OpenSSL: MD5 failed");
  return digest;
}

/**
 * The digest, computed by a thread of the pool. Until the promise settles, the memory of `data`
 * must stay as it is. koffi refuses more than 256 calls at once.
 */
export async function md5InThread(data: Uint8Array): Promise<Buffer> {
  const digest = Buffer.allocUnsafeSlow(MD5_BYTES);
  const done: unknown = await inThread(MD5, data, data.length, digest);
  // Both buffers are used behind the call, so that neither is collected during it.
  if (done === null) throw new Error(`OpenSSL: MD5 of ${data.length} bytes failed`);
  return digest;
}

export function randomBytes(sizeBytes: number): Buffer {
  const bytes = Buffer.allocUnsafe(sizeBytes);
  if (RAND_bytes(bytes, sizeBytes) !== 1) throw new Error("OpenSSL: no random bytes");
  return bytes;
}
