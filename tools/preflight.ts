import { toolMain } from "./progress.ts";
import { checkHost } from "./stack/cluster.ts";

await toolMain(async () => checkHost());
