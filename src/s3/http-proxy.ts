import { Buffer } from "node:buffer";
import net from "node:net";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { Secret } from "../base/secret.ts";

export interface HttpProxy {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** The header's value. */
  readonly authorization: Secret | undefined;
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

/**
 * The proxy that the environment names for an endpoint, by the variables that curl and others
 * know; small letters win. Nothing is exempt by itself, not even this machine.
 */
export function proxyFor(endpoint: Endpoint, env: Environment): HttpProxy | undefined {
  const [variable, text] = firstOf(env, [endpoint.tls ? "https_proxy" : "http_proxy", "all_proxy"]);
  if (text === "") return undefined;
  const [, exceptions] = firstOf(env, ["no_proxy"]);
  if (exceptions.split(/[\s,]+/).some((entry) => exempts(entry, endpoint))) return undefined;
  return parseProxy(variable, text);
}

/** Without what it takes to use it: for messages. */
export function proxyName({ host, port, tls }: HttpProxy): string {
  return `the proxy ${tls ? "https" : "http"}://${bracketed(host)}:${port}`;
}

/** For each request that the proxy reads itself. */
export function authorizationLine({ authorization }: HttpProxy): string {
  return authorization === undefined ? "" : `proxy-authorization: ${authorization.reveal()}\r\n`;
}

/** HTTP 407 is the proxy's own word: S3 was not asked. */
export function refusalOf(proxy: HttpProxy): Failure {
  const wants = proxy.authorization === undefined ? "wants a" : "does not accept the";
  return new Failure("denied", `${proxyName(proxy)} ${wants} user and password: HTTP 407`);
}

/** An address of version 6 needs brackets where a port follows. */
export function bracketed(host: string): string {
  return net.isIPv6(host) ? `[${host}]` : host;
}

function firstOf(env: Environment, names: readonly string[]): readonly [string, string] {
  for (const name of names.flatMap((small) => [small, small.toUpperCase()])) {
    const text = env[name]?.trim() ?? "";
    if (text !== "") return [name, text];
  }
  return ["", ""];
}

function parseProxy(variable: string, text: string): HttpProxy {
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  const known = url?.protocol === "http:" || url?.protocol === "https:";
  if (url === null || !known || url.hostname === "") throw wrong(variable, text);
  const isTls = url.protocol === "https:";
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
    tls: isTls,
    authorization: authorizationOf(variable, text, url),
  };
}

function authorizationOf(variable: string, text: string, url: URL): Secret | undefined {
  if (url.username === "" && url.password === "") return undefined;
  try {
    const user = decodeURIComponent(url.username);
    const password = decodeURIComponent(url.password);
    return new Secret(`Basic ${Buffer.from(`${user}:${password}`, "utf8").toString("base64")}`);
  } catch {
    throw wrong(variable, text); // a % that begins nothing
  }
}

/** A password may stand before the last @, so nothing that stands there is shown. */
function wrong(variable: string, text: string): Failure {
  const shown = JSON.stringify(text.replace(/^.*@/s, "…@")).slice(1, -1);
  return new Failure("invalid", `${variable} ${shown}: an http:// or https:// URL is expected`);
}

/** One entry of NO_PROXY: `*`, a name and all below it, an address or a network; maybe a port. */
function exempts(entry: string, { host, port }: Endpoint): boolean {
  if (entry === "*") return true;
  const [, bracket, name, portText] = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [];
  if (portText !== undefined && Number(portText) !== port) return false;
  const wanted = (bracket ?? name ?? entry).toLowerCase(); // the entry itself: a bare IPv6 address
  if (net.isIP(host) !== 0) return isWithin(host, wanted);
  const domain = wanted.replace(/^\*?\.|\.$/g, "");
  const given = host.toLowerCase().replace(/\.$/, "");
  return domain !== "" && (given === domain || given.endsWith(`.${domain}`));
}

function isWithin(address: string, network: string): boolean {
  const [base = "", bits] = network.split("/");
  const version = net.isIP(base);
  if (version === 0 || (bits !== undefined && !/^\d{1,3}$/.test(bits))) return false;
  const family = version === 6 ? "ipv6" : "ipv4";
  const bitsMax = version === 6 ? 128 : 32;
  const prefix = bits === undefined ? bitsMax : Number(bits);
  if (prefix > bitsMax) return false;
  const list = new net.BlockList();
  list.addSubnet(base, prefix, family);
  return list.check(address, net.isIPv6(address) ? "ipv6" : "ipv4");
}
