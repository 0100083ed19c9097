import type { BucketOptions } from './body-bucket.ts';
import { BodyFolder } from './body-folder.ts';
import type { BodyStore } from './body-store.ts';

/**
 * Opens the store of large bodies: a bucket where one is given, else a folder.
 *
 * @param location.folder absolute path
 * @param location.spool absolute path of a folder for bodies on their way into the bucket
 */
export async function openBodyStore(location: {
  readonly folder: string;
  readonly spool: string;
  readonly bucket: Omit<BucketOptions, 'spool'> | undefined;
}): Promise<BodyStore> {
  if (!location.bucket) return new BodyFolder(location.folder);
  const { BodyBucket } = await import('./body-bucket.ts');
  return new BodyBucket({ ...location.bucket, spool: location.spool });
}
