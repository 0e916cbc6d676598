import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Secret } from "../../../src/base/secret.ts";
import { fixedCredentials } from "../../../src/s3/credentials.ts";
import { locate } from "../../../src/s3/s3-location.ts";
import { S3Store } from "../../../src/s3/s3-store.ts";
import { S3Transport } from "../../../src/s3/s3-transport.ts";
import { CHECKSUM_KINDS } from "../../../src/s3/upload-checksum.ts";
import { programs } from "../../programs.ts";
import { claimSlot, MARK } from "../../stack/instance.ts";
import type { Instance } from "../../stack/instance.ts";
import { startS3In } from "../../stack/s3-server.ts";
import type { S3Access } from "../../stack/s3-server.ts";
import { limit } from "./content.ts";

export const BUCKET = "bench";

/** Where the contenders meet: one bucket of one S3 server, and a directory for what they write. */
export interface Arena extends AsyncDisposable {
  readonly instance: Instance;
  readonly access: S3Access;
  readonly serverPid: number;
  readonly store: S3Store;
  /** Where the server keeps objects, as files. */
  readonly dataDir: string;
  /** Removed at the end, by the next start of any stack at the latest. */
  readonly dir: string;
  /** In the environment of every process here: one that outlives a killed run is found by it. */
  readonly mark: Readonly<Record<string, string>>;
}

export async function openArena(): Promise<Arena> {
  await using owned = new AsyncDisposableStack();
  const instance = owned.use(await claimSlot());
  const program = await programs("versitygw");
  const server = owned.use(await startS3In(instance, instance.address, [], program));
  const transport = transportTo(server);
  await transport.send({ method: "PUT", key: "" }, limit());
  const store = owned.adopt(storeOn(transport), (open) => open.close());
  const all = owned.move();
  return {
    instance,
    access: server,
    serverPid: server.service.pid,
    store,
    dataDir: server.dataDir,
    dir: instance.dir,
    mark: { [MARK]: instance.dir },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Its own --version says "git": the pinned one is what was built. */
export function serverVersion(): string {
  const pins = readFileSync(join(import.meta.dirname, "../../programs/versitygw/go.mod"), "utf8");
  const [, version = "?"] = /^require github\.com\/versity\/versitygw (\S+)/m.exec(pins) ?? [];
  return `versitygw ${version}`;
}

export function openStore(access: S3Access): S3Store {
  return storeOn(transportTo(access));
}

function transportTo({ endpoint, region, ...keys }: S3Access): S3Transport {
  const { accessKeyId } = keys;
  const secretAccessKey = new Secret(keys.secretAccessKey);
  return new S3Transport({
    location: locate({ bucket: BUCKET, region, endpointUrl: endpoint, forcePathStyle: true }),
    credentials: fixedCredentials({ accessKeyId, secretAccessKey, sessionToken: undefined }),
    ca: undefined,
    userAgent: "s3csi-bench",
    connectionsMax: 16,
    connectTimeoutMs: 3_000,
    silenceLimitMs: 120_000, // the server is silent while it puts 8 GiB together
    signsPayload: false,
    extraHeaders: {},
  });
}

function storeOn(transport: S3Transport): S3Store {
  const uploads = { objectHeaders: {}, checksum: CHECKSUM_KINDS.crc32 };
  return new S3Store(transport, { attemptsMax: 3, windowMs: 10_000 }, uploads);
}
