/** The version of the package: the interface has no other. */
import { readFileSync } from 'node:fs';

export const { version }: { readonly version: string } = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
);
