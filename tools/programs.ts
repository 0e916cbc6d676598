import { globSync } from "node:fs";
import { copyFile, mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { cached } from "./cache.ts";
import { crunRoot } from "./crun.ts";
import { debianRoot } from "./debian.ts";
import { ToolError, step, toolMain } from "./progress.ts";
import { run } from "./run.ts";

const KUBERNETES_VERSION = "v1.36.3";
const GO_NEEDED = [1, 26] as const;

/**
 * A tools-only Go module in tools/programs/: its go.mod pins what is built, its go.sum the bytes.
 */
interface Group {
  readonly module: string;
  /** Program name → import path. */
  readonly programs: Readonly<Record<string, string>>;
  readonly ldflags?: string;
  /** Only when it is asked for by name: `make tools` leaves it out. */
  readonly onDemand?: true;
  /** Files of dependencies that tests compare with: name → [module, path inside]. */
  readonly files?: Readonly<Record<string, readonly [module: string, path: string]>>;
}

const stamp = (name: string, value: string) =>
  ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"]
    .map((pkg) => `-X ${pkg}.${name}=${value}`)
    .join(" ");

const GROUPS = {
  kubernetes: {
    module: "kubernetes",
    programs: {
      etcd: "go.etcd.io/etcd/server/v3",
      "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
      "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
      "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
      "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
      kubectl: "k8s.io/kubernetes/cmd/kubectl",
      kubelet: "k8s.io/kubernetes/cmd/kubelet",
    },
    ldflags: [
      stamp("gitVersion", KUBERNETES_VERSION),
      stamp("gitMajor", "1"),
      stamp("gitMinor", "36"),
    ].join(" "),
    files: {
      "pluginregistration.proto": ["k8s.io/kubelet", "pkg/apis/pluginregistration/v1/api.proto"],
    },
  },
  "csi-test": {
    module: "csi-test",
    programs: { "csi-sanity": "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity" },
    files: { "csi.proto": ["github.com/container-storage-interface/spec", "csi.proto"] },
  },
  versitygw: {
    module: "versitygw",
    programs: { versitygw: "github.com/versity/versitygw/cmd/versitygw" },
  },
  helm: { module: "helm", programs: { helm: "helm.sh/helm/v4/cmd/helm" } },
  rclone: { module: "rclone", programs: { rclone: "s3csi.local/tools/rclone" }, onDemand: true },
} as const satisfies Record<string, Group>;

export type GroupName = keyof typeof GROUPS;

/** Where the programs of a group are: `<dir>/<program>`. Built on the first call, then cached. */
export async function programs(name: GroupName): Promise<string> {
  const group: Group = GROUPS[name];
  const source = join(import.meta.dirname, "programs", group.module);
  const version = await goVersion();
  const key = [
    JSON.stringify(group),
    version,
    process.arch,
    await readFile(join(source, "go.mod")),
    await readFile(join(source, "go.sum")),
    ...(await ownMain(source)),
  ];
  return cached(name, key, (dir) => build(name, group, source, dir));
}

/** A module that makes one program of chosen packages has a main of its own; most have none. */
async function ownMain(source: string): Promise<Buffer[]> {
  return Promise.all(globSync("*.go", { cwd: source }).map((file) => readFile(join(source, file))));
}

async function build(name: string, group: Group, source: string, dir: string): Promise<void> {
  const env = { ...process.env, CGO_ENABLED: "0", GOWORK: "off" };
  const packages = Object.values(group.programs);
  await step(`building ${name} ${Object.keys(group.programs).join(", ")}`, async (status) => {
    status("resolving modules");
    const list = ["list", "-mod=readonly", "-deps", ...packages];
    const listed = await run("go", list, { cwd: source, env }).catch((error: unknown) => {
      throw notFetched(name, error);
    });
    const total = listed.split("\n").length;
    let compiled = 0;
    const ldflags = `-s -w ${group.ldflags ?? ""}`;
    const args = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", ldflags];
    await run("go", ["build", "-v", ...args, "-o", `${dir}/`, ...packages], {
      cwd: source,
      env,
      onErrorLine: () => status(`${(compiled += 1)} of at most ${total} packages compiled`),
    });
  });
  for (const [program, importPath] of Object.entries(group.programs)) {
    const built = goBinaryNameOf(importPath);
    if (built !== program) await rename(join(dir, built), join(dir, program));
  }
  for (const [file, [module, path]] of Object.entries(group.files ?? {})) {
    const found = await run("go", ["list", "-m", "-f", "{{.Dir}}", module], { cwd: source, env });
    await mkdir(join(dir, "files"), { recursive: true });
    await copyFile(join(found.trim(), path), join(dir, "files", file));
  }
}

/** Of what go says, often once for each package, the last line is enough. */
function notFetched(name: string, error: unknown): Error {
  if (error instanceof ToolError) return error;
  const reason = error instanceof Error ? error.message.trimEnd().split("\n").at(-1) : "";
  const hint = "the first build needs the network: `go env GOPROXY` has to be in reach";
  return new ToolError(`the Go modules of ${name} can't be fetched: ${reason}\n${hint}`);
}

/** As `go build` names it: the last element of the path, or the one before a major version. */
function goBinaryNameOf(importPath: string): string {
  const parts = importPath.split("/");
  const last = parts.at(-1) ?? "";
  return /^v\d+$/.test(last) ? (parts.at(-2) ?? "") : last;
}

async function goVersion(): Promise<string> {
  const needed = GO_NEEDED.join(".");
  const printed = await run("go", ["env", "GOVERSION"]).catch((error: unknown) => {
    if (!(error instanceof ToolError)) throw error;
    throw new ToolError(`Go ${needed} or newer is needed to build the test stack: no "go" in PATH`);
  });
  const version = printed.trim();
  const [, major = "0", minor = "0"] = /^go(\d+)\.(\d+)/.exec(version) ?? [];
  const newEnough = Number(major) > GO_NEEDED[0] || Number(minor) >= GO_NEEDED[1];
  if (newEnough) return version;
  throw new ToolError(`Go ${needed} or newer is needed to build the test stack: found ${version}`);
}

/** All of them, one after the other: two builds at once only slow each other down. */
async function allPrograms(): Promise<void> {
  await debianRoot();
  await crunRoot();
  for (const [name, group] of Object.entries<Group>(GROUPS)) {
    if (group.onDemand !== true) await programs(name as GroupName);
  }
}

if (import.meta.main) {
  await toolMain(async () => {
    await allPrograms();
  });
}
