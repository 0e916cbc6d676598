import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { unpackedPackages } from "../../debian.ts";
import { canConnect } from "../../stack/s3-server.ts";
import { Service } from "../../stack/service.ts";
import { BUCKET, openStore } from "./arena.ts";
import type { Arena } from "./arena.ts";
import { LARGE } from "./content.ts";

const PORT = 29_001;
const READY_WITHIN_MS = 10_000;
const TEMPORARY = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/**
 * nginx in front of the arena's S3 server: it answers for the large object itself, from the file
 * that the server keeps it in, and passes on all else. The S3 server takes a millisecond of CPU
 * for a ranged GET, however small: random reads would measure nothing but that.
 */
export async function openFileFront(arena: Arena): Promise<Arena> {
  await using owned = new AsyncDisposableStack();
  const root = await unpackedPackages("nginx", ["nginx"]);
  const { instance } = arena;
  const dir = join(instance.dir, "nginx");
  const address = `${instance.address}:${PORT}`;
  await mkdir(dir);
  await writeFile(join(dir, "nginx.conf"), configOf(arena, dir, address));
  const service = owned.use(
    new Service({
      instance,
      name: "nginx",
      program: join(root, "usr/sbin/nginx"),
      args: ["-c", join(dir, "nginx.conf"), "-e", "stderr"],
    }),
  );
  await service.answers(() => canConnect(instance.address, PORT), READY_WITHIN_MS);
  const access = { ...arena.access, endpoint: `http://${address}` };
  const store = owned.adopt(openStore(access), (open) => open.close());
  const all = owned.move();
  const serverPid = service.pid;
  return { ...arena, access, serverPid, store, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** Host stays as the client said it: it is signed. */
function configOf({ access, dataDir }: Arena, dir: string, address: string): string {
  const temporary = TEMPORARY.map((kind) => `${kind}_temp_path ${join(dir, kind)};`);
  return `daemon off; master_process off; user root; pid ${join(dir, "pid")};
events {}
http {
  access_log off; sendfile on; keepalive_requests 1000000; ${temporary.join(" ")}
  server {
    listen ${address};
    location = /${BUCKET}/${LARGE.key} { root ${dataDir}; }
    location / {
      proxy_pass ${access.endpoint}; proxy_http_version 1.1;
      proxy_set_header Host $http_host; proxy_set_header Connection "";
    }
  }
}
`;
}
