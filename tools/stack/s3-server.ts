import { mkdir } from "node:fs/promises";
import { connect } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { programs } from "../programs.ts";
import { run } from "../run.ts";
import { claimSlot } from "./instance.ts";
import type { Instance } from "./instance.ts";
import { Service } from "./service.ts";

const PORT = 29_000;
/** Behind this name the bucket may stand in the host; any other host means a bucket in the path. */
const VIRTUAL_DOMAIN = "s3.us-east-1.amazonaws.com";
const DEFAULT_REGION = "us-east-1";
const READY_WITHIN_MS = 10_000;

export interface S3Access {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface S3Server extends S3Access, AsyncDisposable {
  readonly service: Service;
}

/** One whose objects are files below `dataDir`, in a directory for each bucket. */
export interface PosixS3Server extends S3Server {
  readonly dataDir: string;
  /** Another account: its buckets are its own, and it sees no others. */
  addAccount(name: string): Promise<S3Access>;
}

export interface S3ServerOptions {
  readonly region?: string;
  /** Buckets can keep the versions of their objects. */
  readonly versions?: boolean;
}

/** A real S3 server (versitygw on a directory) with an address of its own: any number can run. */
export async function startS3Server(options: S3ServerOptions = {}): Promise<PosixS3Server> {
  await using owned = new AsyncDisposableStack();
  const instance = owned.use(await claimSlot());
  const dir = await programs("versitygw");
  const server = owned.use(await startS3In(instance, instance.address, [], dir, options));
  const all = owned.move();
  return { ...server, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** The same as a part of a larger stack: `wrapper` enters its namespaces, `dir` has the program. */
export async function startS3In(
  instance: Instance,
  address: string,
  wrapper: readonly string[],
  dir: string,
  { region = DEFAULT_REGION, versions = false }: S3ServerOptions = {},
): Promise<PosixS3Server> {
  const access: S3Access = {
    endpoint: `http://${address}:${PORT}`,
    region,
    accessKeyId: "s3csi-test-key",
    secretAccessKey: "s3csi-test-secret",
  };
  const dataDir = join(instance.dir, "s3");
  const accountsDir = join(instance.dir, "s3-accounts");
  const versionsDir = join(instance.dir, "s3-versions");
  for (const path of [dataDir, accountsDir, versionsDir]) await mkdir(path);
  const service = new Service({
    instance,
    wrapper,
    name: "versitygw",
    program: join(dir, "versitygw"),
    args: [
      "--port",
      `${address}:${PORT}`,
      "--region",
      access.region,
      "--quiet",
      "--keep-alive",
      "--iam-dir",
      accountsDir,
      "--virtual-domain",
      VIRTUAL_DOMAIN,
      "posix",
      ...(versions ? ["--versioning-dir", versionsDir] : []),
      dataDir,
    ],
    env: { ROOT_ACCESS_KEY: access.accessKeyId, ROOT_SECRET_KEY: access.secretAccessKey },
  });
  await service.answers(() => canConnect(address, PORT), READY_WITHIN_MS);
  const dispose = () => service[Symbol.asyncDispose]();
  const program = [...wrapper, join(dir, "versitygw")];
  const addAccount = (name: string) => createAccount(program, access, name);
  return { ...access, service, dataDir, addAccount, [Symbol.asyncDispose]: dispose };
}

async function createAccount(
  program: readonly string[],
  root: S3Access,
  name: string,
): Promise<S3Access> {
  const account = { ...root, accessKeyId: name, secretAccessKey: `${name}-secret-key` };
  const asRoot = ["-a", root.accessKeyId, "-s", root.secretAccessKey, "--er", root.endpoint];
  const user = ["-a", name, "-s", account.secretAccessKey, "-r", "userplus"]; // may make buckets
  await run("env", [...program, "admin", ...asRoot, "create-user", ...user]);
  return account;
}

export async function canConnect(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, "connect");
    return true;
  } finally {
    socket.destroy();
  }
}
