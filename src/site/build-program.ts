/**
 * `npm run docs:build`: builds the site unless that is done already. The service runs the same
 * program, with the folder for its builds as the argument.
 */
import { buildSite } from './build-site.ts';
import { defaultSources } from './sources.ts';

const directory = await buildSite(defaultSources, process.argv[2] ?? defaultSources.builds);
process.stdout.write(`${directory}\n`);
