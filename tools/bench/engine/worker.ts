import { unmount } from "../../../src/sys/fuse-mount.ts";
import { readMounts } from "../../../src/sys/mount-info.ts";
import { toolMain } from "../../progress.ts";
import type { Figures } from "../part.ts";
import { engineFigures } from "./rounds.ts";

/** What the worker tells the process that started it. */
export type WorkerMessage = { readonly progress: string } | { readonly figures: Figures };

const tell = (message: WorkerMessage) => process.send?.(message);

/** The namespace began as a copy: a copied FUSE mount keeps a stranger's engine from ending. */
function leaveStrangersMounts(): void {
  const strangers = readMounts().filter(({ type }) => /^fuse(\.|$)/.test(type));
  for (const { mountPoint } of strangers.toReversed()) unmount(mountPoint, { detach: true });
}

await toolMain(async () => {
  leaveStrangersMounts();
  const [rounds, scales] = process.argv.slice(2);
  const settings = { rounds: Number(rounds), scales: scales === "scales" };
  tell({ figures: await engineFigures(settings, (progress) => tell({ progress })) });
});
process.disconnect?.();
