import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import { promisify } from "node:util";

const run = promisify(execFile);
const SELF_SIGNED =
  "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=s3csi-test";

/** At the start of what came, never in the middle of a body. */
const REQUEST_HEAD = /^[A-Z]+ \S+ HTTP\/1\.1\r\n(?:.+\r\n)*\r\n/;

/** The same server behind TLS, with a certificate that only `ca` vouches for. */
export class TlsFront implements AsyncDisposable {
  readonly url: string;
  readonly ca: string;
  /** The heads of the requests that came so far. */
  readonly requests: readonly string[];
  readonly #owned: AsyncDisposableStack;

  private constructor(url: string, ca: string, requests: string[], owned: AsyncDisposableStack) {
    this.url = url;
    this.ca = ca;
    this.requests = requests;
    this.#owned = owned;
  }

  /** `name` is what the certificate is for. */
  static async start(endpoint: string, name: string, listen: { host: string; port: number }) {
    await using owned = new AsyncDisposableStack();
    const dir = await mkdtemp(join(tmpdir(), "s3csi-tls-"));
    owned.defer(() => rm(dir, { recursive: true }));
    const [key, ca] = [join(dir, "key"), join(dir, "ca")];
    const san = ["-addext", `subjectAltName=DNS:${name}`];
    await run("openssl", [...SELF_SIGNED.split(" "), ...san, "-keyout", key, "-out", ca]);
    const { hostname, port } = new URL(endpoint);
    const requests: string[] = [];
    const options = { key: await readFile(key), cert: await readFile(ca) };
    const server = tls.createServer(options, (client) => {
      const upstream = connect({ host: hostname, port: Number(port) });
      client.on("data", (data: Buffer) => {
        requests.push(...(REQUEST_HEAD.exec(data.toString("latin1")) ?? []));
      });
      client.pipe(upstream).pipe(client);
      client.on("error", () => upstream.destroy());
      upstream.on("error", () => client.destroy());
    });
    server.on("tlsClientError", () => undefined);
    await once(server.listen(listen.port, listen.host), "listening");
    owned.defer(() => void server.close());
    const address = server.address();
    assert(address !== null && typeof address === "object");
    return new TlsFront(`https://${name}:${address.port}`, ca, requests, owned.move());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}
