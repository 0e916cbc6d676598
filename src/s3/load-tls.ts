import type * as tls from "node:tls";

/** Only where it is spoken: loading it takes longer than the rest of this client. */
export function loadTls(): typeof tls {
  return process.getBuiltinModule("node:tls");
}
