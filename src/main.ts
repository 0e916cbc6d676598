import { Failure } from "./base/failure.ts";
import type { Environment } from "./base/flags.ts";
import { VERSION } from "./base/version.ts";

/** A role's whole life; its result is the exit code. */
type Run = (argv: readonly string[], env: Environment) => Promise<number>;

/**
 * Each role loads only its own rooms: a Mountpoint Pod must not pay for what the controller needs.
 */
const ROLES: Readonly<Record<string, { readonly summary: string; load(): Promise<Run> }>> = {
  controller: {
    summary: "make volumes, keep Mountpoint Pods and attachments (one leads per cluster)",
    load: async () => (await import("./roles/controller.ts")).run,
  },
  node: {
    summary: "serve the kubelet: publish and unpublish volumes (one per node)",
    load: async () => (await import("./roles/node.ts")).run,
  },
  mounter: {
    summary: "receive a mount from the node service, keep its engine (one per Mountpoint Pod)",
    load: async () => (await import("./roles/mounter.ts")).run,
  },
  mount: {
    summary: "serve one bucket as a filesystem",
    load: async () => (await import("./roles/mount.ts")).run,
  },
  engine: {
    summary: "the process that does it: started, and started again, by mount and mounter",
    load: async () => (await import("./roles/engine.ts")).run,
  },
};

const USAGE = [
  "s3csi: Kubernetes volumes on S3 buckets",
  "",
  "Usage: s3csi ROLE [options]     s3csi ROLE --help     s3csi --version",
  "",
  ...Object.entries(ROLES).map(([name, { summary }]) => `  ${name.padEnd(11)} ${summary}`),
].join("\n");

async function main(args: readonly string[], env: Environment): Promise<number> {
  const [name = "--help", ...rest] = args;
  if (name === "--help" || name === "-h") return say(USAGE);
  if (name === "--version" || rest.includes("--version")) return say(`s3csi ${VERSION}`);
  const role = Object.hasOwn(ROLES, name) ? ROLES[name] : undefined;
  if (role === undefined) {
    throw new Failure("invalid", `unknown role "${name}": one of ${Object.keys(ROLES).join(", ")}`);
  }
  const run = await role.load();
  return run(rest, env);
}

function say(text: string): number {
  process.stdout.write(`${text}\n`);
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2), process.env);
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  process.stderr.write(`s3csi: ${error.message}\n`);
  process.exitCode = 2;
}
