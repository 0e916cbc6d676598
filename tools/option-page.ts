import { writeFileSync } from "node:fs";
import { optionPage } from "../src/mount/option-page.ts";

writeFileSync("docs/options.md", optionPage());
