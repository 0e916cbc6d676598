import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { programs } from "../../programs.ts";
import { run } from "../../run.ts";

const CHART = join(import.meta.dirname, "../../../deploy/chart");
/** Of the chart all that objects need to exist and be judged: no pods that nobody could run. */
const TEMPLATES = [
  "mountpoint-pods", // with their namespace, which others need
  "crd",
  "controller-rbac",
  "provisioner-rbac",
  "attachment-policy",
  "event-policy",
];
const ACCOUNT = "s3-csi-driver-controller-sa";
const TOKEN_LIFE = "2h";
/** Required by the chart; no volume is mounted here. */
const VALUES = ["--set", "s3.endpointUrl=https://s3.test"];

/** Gives a directory as the controller's pod would have it: its token, and whom to trust. */
export async function install(adminKubeconfig: string): Promise<string> {
  const helm = join(await programs("helm"), "helm");
  const only = TEMPLATES.flatMap((name) => ["-s", `templates/${name}.yaml`]);
  const objects = await run(helm, ["template", "bench", CHART, ...VALUES, ...only]);
  await kubectl(adminKubeconfig, ["apply", "-f", "-"], objects);
  const ask = ["create", "token", ACCOUNT, `--duration=${TOKEN_LIFE}`];
  const token = (await kubectl(adminKubeconfig, ask)).trim();
  const pki = dirname(adminKubeconfig);
  const account = join(pki, "controller-account");
  await mkdir(account);
  await copyFile(join(pki, "ca.crt"), join(account, "ca.crt"));
  await writeFile(join(account, "token"), token, { mode: 0o600 });
  return account;
}

export async function kubectl(
  kubeconfig: string,
  args: readonly string[],
  input = "",
): Promise<string> {
  const program = join(await programs("kubernetes"), "kubectl");
  return run(program, ["--kubeconfig", kubeconfig, ...args], { input });
}
