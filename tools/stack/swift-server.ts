import { join } from "node:path";
import { debianLibraries, unpackedPackages } from "../debian.ts";
import { claimSlot } from "./instance.ts";
import type { S3Access, S3Server } from "./s3-server.ts";
import { Service } from "./service.ts";

const PROGRAM = join(import.meta.dirname, "swift-server.py");
const PYTHON = "/usr/bin/python3"; // Debian's own: the packages are built for it
const FIRST_PORT = 29_100;
/** It lists so many keys at a time, however many are asked for: borders are met soon. */
export const SWIFT_PAGE_KEYS = 100;
const READY_WITHIN_MS = 60_000;

/** Swift, and what its modules import that a small Debian may lack. */
const PACKAGES = (
  "python3-swift liberasurecode1 libicu72 libxml2 libxslt1.1 libyaml-0-2 " +
  "python3-certifi python3-cffi-backend python3-charset-normalizer python3-cryptography " +
  "python3-debtcollector python3-dnspython python3-eventlet python3-greenlet python3-idna " +
  "python3-iso8601 python3-lxml python3-monotonic python3-netaddr python3-netifaces " +
  "python3-openssl python3-oslo.config python3-oslo.i18n python3-oslo.utils python3-packaging " +
  "python3-paste python3-pastedeploy python3-pbr python3-pkg-resources python3-pyeclib " +
  "python3-pyparsing python3-requests python3-rfc3986 python3-setuptools python3-six " +
  "python3-stevedore python3-tempita python3-tz python3-urllib3 python3-wrapt python3-xattr " +
  "python3-yaml"
).split(" ");

/**
 * A second real S3 server, OpenStack Swift with its S3 face: slow, but its key space is flat. It
 * holds what a server on a file system can't: `a` beside `a/b`, `a//b`, `..`, parts of any length.
 */
export async function startSwiftServer(): Promise<S3Server> {
  await using owned = new AsyncDisposableStack();
  const instance = owned.use(await claimSlot());
  const root = await unpackedPackages("swift", PACKAGES);
  const access: S3Access = {
    endpoint: `http://${instance.address}:${FIRST_PORT}`,
    region: "us-east-1",
    accessKeyId: "s3csi:test", // account and user
    secretAccessKey: "s3csi-test-secret",
  };
  const { accessKeyId, secretAccessKey } = access;
  const data = join(instance.dir, "swift");
  const service = owned.use(
    new Service({
      instance,
      name: "swift",
      program: PYTHON,
      args: [
        PROGRAM,
        data,
        instance.address,
        String(FIRST_PORT),
        accessKeyId,
        secretAccessKey,
        String(SWIFT_PAGE_KEYS),
      ],
      env: {
        PYTHONPATH: join(root, "usr/lib/python3/dist-packages"),
        PYTHONDONTWRITEBYTECODE: "1",
        LD_LIBRARY_PATH: await debianLibraries(root),
      },
    }),
  );
  await service.line(/^ready$/, READY_WITHIN_MS);
  const all = owned.move();
  return { ...access, service, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
