import { copyFile, mkdir, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { cached } from "../cache.ts";
import { debianRoot } from "../debian.ts";
import { writeImage } from "../oci.ts";
import { run } from "../run.ts";

/** A shell and its tools for workload pods; started without a command it only waits: the pause. */
export const BUSYBOX_IMAGE = "s3csi.local/busybox:1";

/** The image's archive. */
export async function busyboxArchive(): Promise<string> {
  const debian = await debianRoot();
  const dir = await cached("busybox-image", [debian, BUSYBOX_IMAGE], async (draft) => {
    const root = join(draft, "root");
    await mkdir(join(root, "bin"), { recursive: true });
    await mkdir(join(root, "tmp"), { mode: 0o1777 });
    const busybox = join(root, "bin/busybox");
    await copyFile(join(debian, "bin/busybox"), busybox);
    const applets = (await run(busybox, ["--list"])).trim().split("\n");
    for (const applet of applets.filter((name) => name !== "busybox")) {
      await symlink("busybox", join(root, "bin", applet));
    }
    const config = { Env: ["PATH=/bin"], Cmd: ["/bin/sleep", "2147483647"] };
    await writeImage({ name: BUSYBOX_IMAGE, root, config, archive: join(draft, "image.tar") });
    await rm(root, { recursive: true });
  });
  return join(dir, "image.tar");
}
