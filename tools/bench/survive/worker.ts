import { workerMain } from "../apart.ts";
import { surviveFigures } from "./figures.ts";

await workerMain((args, progress) => {
  const [readMib = 0, readKills = 0, writeMib = 0, writeKills = 0, pairs = 0] = args.map(Number);
  return surviveFigures({ readMib, readKills, writeMib, writeKills, pairs }, progress);
});
