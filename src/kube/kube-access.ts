import { readFileSync } from "node:fs";
import { isIPv6 } from "node:net";
import { FileAuth } from "@kubernetes/client-node/dist/file_auth.js";
import { Failure } from "../base/failure.ts";

export interface TlsOptions {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
}

/** How to reach the API server, and who we are there. */
export interface KubeAccess {
  readonly server: URL;
  readonly tls: TlsOptions;
  /** Asked for every request: a service account's token changes about every hour. */
  headers(): Promise<Readonly<Record<string, string>>>;
}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/** From a kubeconfig file where one is named, else the pod's own service account. */
export async function loadKubeAccess(kubeconfigPath: string | undefined): Promise<KubeAccess> {
  return kubeconfigPath === undefined ? inClusterAccess() : kubeconfigAccess(kubeconfigPath);
}

/** The library's KubeConfig costs 80 MB and a second to load; a pod needs only its token. */
function inClusterAccess(): KubeAccess {
  const host = process.env["KUBERNETES_SERVICE_HOST"];
  const port = process.env["KUBERNETES_SERVICE_PORT"];
  if (host === undefined || port === undefined) {
    throw new Failure("invalid", "not in a pod and no kubeconfig: give --kubeconfig");
  }
  const auth = new FileAuth();
  const tokenFile = `${SERVICE_ACCOUNT}/token`;
  const user = { name: "pod", authProvider: { name: "tokenFile", config: { tokenFile } } };
  return {
    server: new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`),
    tls: { ca: readFileSync(`${SERVICE_ACCOUNT}/ca.crt`) },
    async headers() {
      const options = { headers: {} };
      await auth.applyAuthentication(user, options);
      return options.headers;
    },
  };
}

/** By the library: it knows every way to log in, with certificates, tokens and commands. */
async function kubeconfigAccess(path: string): Promise<KubeAccess> {
  const { KubeConfig } = await import("@kubernetes/client-node/dist/config.js");
  const config = new KubeConfig();
  config.loadFromFile(path);
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new Failure("invalid", `${path} names no current cluster`);
  const options: RequestFacts = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  return {
    server: new URL(cluster.server),
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(servername === undefined ? {} : { servername }),
      ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
    },
    async headers() {
      const fresh: RequestFacts = {};
      await config.applyToHTTPSOptions(fresh);
      return { ...fresh.headers, ...basicAuth(fresh.auth) };
    },
  };
}

/** What the library fills in of https.RequestOptions, in the shapes that it uses. */
interface RequestFacts {
  ca?: Buffer;
  cert?: Buffer;
  key?: Buffer;
  servername?: string;
  rejectUnauthorized?: boolean;
  auth?: string;
  headers?: Record<string, string>;
}

function basicAuth(auth: string | undefined): Record<string, string> {
  if (auth === undefined) return {};
  return { Authorization: `Basic ${Buffer.from(auth).toString("base64")}` };
}
