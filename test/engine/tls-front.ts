import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { connect, isIP } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import tls from "node:tls";
import { promisify } from "node:util";

const run = promisify(execFile);
const SELF_SIGNED =
  "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=s3csi-test";

/** At the start of what came, never in the middle of a body. */
const REQUEST_HEAD = /^[A-Z]+ \S+ HTTP\/1\.1\r\n(?:.+\r\n)*\r\n/;

interface TlsFiles {
  readonly ca: string;
  readonly context: tls.SecureContextOptions;
}

interface TlsFrontParts {
  readonly url: string;
  readonly ca: string;
  readonly requests: string[];
  readonly certify: () => Promise<TlsFiles>;
  readonly server: tls.Server;
  readonly clients: ReadonlySet<tls.TLSSocket>;
  readonly owned: AsyncDisposableStack;
}

/** The same server behind TLS, with a certificate that only `ca` vouches for. */
export class TlsFront implements AsyncDisposable {
  readonly url: string;
  /** The authority's certificate, a file. */
  readonly ca: string;
  /** The heads of the requests that came so far. */
  readonly requests: readonly string[];
  readonly #certify: () => Promise<TlsFiles>;
  readonly #server: tls.Server;
  readonly #clients: ReadonlySet<tls.TLSSocket>;
  readonly #owned: AsyncDisposableStack;

  private constructor(parts: TlsFrontParts) {
    this.url = parts.url;
    this.ca = parts.ca;
    this.requests = parts.requests;
    this.#certify = parts.certify;
    this.#server = parts.server;
    this.#clients = parts.clients;
    this.#owned = parts.owned;
  }

  /** `name` is what the certificate is for. */
  static async start(endpoint: string, name: string, listen: { host: string; port: number }) {
    await using owned = new AsyncDisposableStack();
    const dir = await mkdtemp(join(tmpdir(), "s3csi-tls-"));
    owned.defer(() => rm(dir, { recursive: true }));
    const kind = isIP(name) === 0 ? "DNS" : "IP";
    const san = ["-addext", `subjectAltName=${kind}:${name}`];
    let count = 0;
    const certify = async () => {
      const [key, ca] = [join(dir, `key-${count}`), join(dir, `ca-${count++}`)];
      await run("openssl", [...SELF_SIGNED.split(" "), ...san, "-keyout", key, "-out", ca]);
      return { ca, context: { key: await readFile(key), cert: await readFile(ca) } };
    };
    const { ca, context } = await certify();
    const { hostname, port } = new URL(endpoint);
    const requests: string[] = [];
    const clients = new Set<tls.TLSSocket>();
    const server = tls.createServer(context, (client) => {
      clients.add(client);
      client.once("close", () => clients.delete(client));
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
    const url = `https://${name}:${address.port}`;
    return new TlsFront({ url, ca, requests, certify, server, clients, owned: owned.move() });
  }

  /** From now on another authority vouches for it: its certificate is the file returned. */
  async renew(): Promise<string> {
    const { ca, context } = await this.#certify();
    this.#server.setSecureContext(context);
    for (const client of this.#clients) client.destroy();
    return ca;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}
