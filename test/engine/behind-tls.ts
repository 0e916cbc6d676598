import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import { promisify } from "node:util";

const run = promisify(execFile);
const SELF_SIGNED =
  "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=localhost";

/** The same server behind TLS, with a certificate that only `ca` vouches for. */
export async function behindTls(endpoint: string) {
  await using owned = new AsyncDisposableStack();
  const dir = await fs.mkdtemp(join(tmpdir(), "s3csi-tls-"));
  owned.defer(() => fs.rm(dir, { recursive: true }));
  const [key, ca] = [join(dir, "key"), join(dir, "ca")];
  const san = ["-addext", "subjectAltName=DNS:localhost"];
  await run("openssl", [...SELF_SIGNED.split(" "), ...san, "-keyout", key, "-out", ca]);
  const { hostname, port } = new URL(endpoint);
  const options = { key: await fs.readFile(key), cert: await fs.readFile(ca) };
  const server = tls.createServer(options, (client) => {
    const upstream = connect({ host: hostname, port: Number(port) });
    client.pipe(upstream).pipe(client);
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
  });
  server.on("tlsClientError", () => undefined);
  await once(server.listen(0, "localhost"), "listening");
  owned.defer(() => void server.close());
  const address = server.address();
  assert(address !== null && typeof address === "object");
  const all = owned.move();
  const url = `https://localhost:${address.port}`;
  return { url, ca, dir, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
