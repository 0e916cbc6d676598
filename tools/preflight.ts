import { toolMain } from "./progress.ts";
import { checkHost } from "./stack/check-host.ts";

await toolMain(async () => checkHost());
