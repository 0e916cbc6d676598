import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../run.ts";

const SERVICE_NAMES = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];
const EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"];
const DAYS = ["-days", "30"];

/** Who may talk to the API server, by the names that Kubernetes gives its own parts. */
const CLIENTS = {
  admin: "/O=system:masters/CN=admin",
  "apiserver-kubelet": "/O=system:masters/CN=apiserver-kubelet",
  "controller-manager": "/CN=system:kube-controller-manager",
  scheduler: "/CN=system:kube-scheduler",
  proxy: "/CN=system:kube-proxy",
  node: "/O=system:nodes/CN=system:node:node1",
} as const;
export type Client = keyof typeof CLIENTS;

/** The certificates of one cluster in `dir`, as <name>.crt and <name>.key. */
export async function makeCertificates(dir: string, serverIps: readonly string[]): Promise<void> {
  await mkdir(dir);
  const ca = ["-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=s3csi-test-ca"];
  await run("openssl", ["req", "-x509", ...EC, ...DAYS, ...ca], { cwd: dir });
  const names = [...SERVICE_NAMES, "localhost"].map((name) => `DNS:${name}`);
  const ips = ["127.0.0.1", "10.96.0.1", ...serverIps].map((ip) => `IP:${ip}`);
  const alternatives = `subjectAltName=${[...names, ...ips].join(",")}`;
  await Promise.all([
    sign(dir, "server", "/CN=kube-apiserver", [alternatives, "extendedKeyUsage=serverAuth"]),
    sign(dir, "kubelet", "/CN=node1", [`${alternatives},DNS:node1`, "extendedKeyUsage=serverAuth"]),
    ...Object.entries(CLIENTS).map(([name, subject]) =>
      sign(dir, name, subject, ["extendedKeyUsage=clientAuth"]),
    ),
    serviceAccountKeys(dir),
  ]);
}

async function sign(
  dir: string,
  name: string,
  subject: string,
  extensions: readonly string[],
): Promise<void> {
  const files = ["-CA", "ca.crt", "-CAkey", "ca.key", "-keyout", `${name}.key`];
  const out = ["-out", `${name}.crt`, "-subj", subject];
  const added = extensions.flatMap((extension) => ["-addext", extension]);
  await run("openssl", ["req", "-x509", ...EC, ...DAYS, ...files, ...out, ...added], { cwd: dir });
}

async function serviceAccountKeys(dir: string): Promise<void> {
  const curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
  await run("openssl", ["genpkey", ...curve, "-out", "service-account.key"], { cwd: dir });
  const publicKey = ["-in", "service-account.key", "-pubout", "-out", "service-account.pub"];
  await run("openssl", ["pkey", ...publicKey], { cwd: dir });
}

/** Writes `<dir>/<client>.kubeconfig`, which names the certificates by path, and gives its path. */
export async function writeKubeconfig(
  dir: string,
  client: Client,
  server: string,
): Promise<string> {
  const path = join(dir, `${client}.kubeconfig`);
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      { name: "s3csi", cluster: { server, "certificate-authority": join(dir, "ca.crt") } },
    ],
    users: [
      {
        name: client,
        user: {
          "client-certificate": join(dir, `${client}.crt`),
          "client-key": join(dir, `${client}.key`),
        },
      },
    ],
    contexts: [{ name: "s3csi", context: { cluster: "s3csi", user: client } }],
    "current-context": "s3csi",
  };
  await writeFile(path, JSON.stringify(config, null, 2), { mode: 0o600 });
  return path;
}
