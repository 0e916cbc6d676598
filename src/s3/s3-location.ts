import { Failure } from "../base/failure.ts";
import { encodeKey } from "./sign.ts";

export interface S3Location {
  readonly bucket: string;
  readonly region: string;
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** As it goes into the Host header: without a default port. */
  readonly hostHeader: string;
  readonly basePath: string;
}

export interface LocationOptions {
  readonly bucket: string;
  readonly region: string;
  readonly endpointUrl: string | undefined;
  readonly forcePathStyle: boolean;
  /** Names of AWS that answer over IPv6 too; of no meaning for other endpoints. */
  readonly dualStack?: boolean;
  /** By the edge network of AWS; the bucket must be in the host name. */
  readonly accelerated?: boolean;
}

/** Where a bucket's requests go. Path style is the rule for endpoints other than AWS. */
export function locate(options: LocationOptions): S3Location {
  const { bucket, region } = options;
  const url = parseEndpoint(options.endpointUrl ?? awsEndpointOf(options));
  const isTls = url.protocol === "https:";
  const hasDots = isTls && bucket.includes("."); // a wildcard certificate covers one label only
  const pathStyle = options.forcePathStyle || options.endpointUrl !== undefined || hasDots;
  const prefix = pathStyle ? "" : `${bucket}.`;
  const base = url.pathname.replace(/\/+$/, "");
  return {
    bucket,
    region,
    host: `${prefix}${url.hostname.replace(/^\[|\]$/g, "")}`,
    port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
    tls: isTls,
    hostHeader: `${prefix}${url.host}`,
    basePath: pathStyle ? `${base}/${encodeKey(bucket)}` : base,
  };
}

function awsEndpointOf({ region, dualStack, accelerated }: LocationOptions): string {
  const stack = dualStack === true ? ".dualstack" : "";
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  if (accelerated === true) return `https://s3-accelerate${stack}.${domain}`;
  return `https://s3${stack}.${region}.${domain}`;
}

function parseEndpoint(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Failure("invalid", `endpoint ${text} is not an http:// or https:// URL`);
  }
  return url;
}
