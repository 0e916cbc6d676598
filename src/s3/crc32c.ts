const POLYNOMIAL = 0x82f63b78; // Castagnoli, bits reversed
const SLICES = 8;

/** TABLES[n][byte]: what a byte does to the sum when n more bytes follow it. */
const TABLES = Array.from({ length: SLICES }, () => new Int32Array(256));

function fillTables(): void {
  const [first = new Int32Array(256)] = TABLES;
  for (let byte = 0; byte < 256; byte++) {
    let sum = byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum & 1) === 0 ? sum >>> 1 : (sum >>> 1) ^ POLYNOMIAL;
    first[byte] = sum;
  }
  for (const [slice, table] of TABLES.entries()) {
    const before = TABLES[slice - 1];
    if (before === undefined) continue;
    for (const [byte, sum] of before.entries()) {
      table[byte] = (sum >>> 8) ^ (first[sum & 0xff] ?? 0);
    }
  }
}

/** Node has CRC-32 in machine code and not this one: eight bytes a step, through eight tables. */
export function crc32c(bytes: Uint8Array): number {
  if (TABLES[0]?.[1] === 0) fillTables();
  const [t0, t1, t2, t3, t4, t5, t6, t7] = TABLES;
  if (!t0 || !t1 || !t2 || !t3 || !t4 || !t5 || !t6 || !t7) throw new RangeError("tables");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const wholeBytes = bytes.length - (bytes.length % SLICES);
  let sum = -1;
  for (let at = 0; at < wholeBytes; at += SLICES) {
    const low = view.getInt32(at, true) ^ sum;
    const high = view.getInt32(at + 4, true);
    sum =
      (t7[low & 0xff] ?? 0) ^
      (t6[(low >>> 8) & 0xff] ?? 0) ^
      (t5[(low >>> 16) & 0xff] ?? 0) ^
      (t4[low >>> 24] ?? 0) ^
      (t3[high & 0xff] ?? 0) ^
      (t2[(high >>> 8) & 0xff] ?? 0) ^
      (t1[(high >>> 16) & 0xff] ?? 0) ^
      (t0[high >>> 24] ?? 0);
  }
  for (let at = wholeBytes; at < bytes.length; at++) {
    sum = (t0[(sum ^ (bytes[at] ?? 0)) & 0xff] ?? 0) ^ (sum >>> 8);
  }
  return ~sum >>> 0;
}
