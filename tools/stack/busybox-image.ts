import { copyFile, mkdir, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { cached } from "../cache.ts";
import { debianRoot } from "../debian.ts";
import { OWN_ARCHITECTURE } from "../image/architecture.ts";
import { packLayer, writeImage } from "../image/oci.ts";
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
    const layer = await packLayer(root, join(draft, "layer"));
    const platforms = [{ architecture: OWN_ARCHITECTURE, layers: [layer] }];
    const archive = join(draft, "image.tar");
    await writeImage({ name: BUSYBOX_IMAGE, platforms, config, archive });
    await rm(root, { recursive: true });
    await rm(layer.file);
  });
  return join(dir, "image.tar");
}
