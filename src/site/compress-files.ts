/**
 * Compresses files once, as hard as it goes, so that the server only picks one.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { listFiles } from './sources.ts';

const compressible = /\.(?:html|css|js|mjs|json|svg|md|txt)$/;
/** Below this a header costs as much as compression wins, in bytes. */
const WORTH_IT = 512;

/** Writes `name.br` and `name.gz` beside each file that becomes smaller by it. */
export async function compressFiles(directory: string): Promise<void> {
  for (const name of listFiles(directory).filter((file) => compressible.test(file))) {
    const path = join(directory, name);
    const content = await readFile(path);
    if (content.length < WORTH_IT) continue;
    const br = await promisify(brotliCompress)(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    });
    const gz = await promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION });
    if (br.length < content.length) await writeFile(`${path}.br`, br);
    if (gz.length < content.length) await writeFile(`${path}.gz`, gz);
  }
}
