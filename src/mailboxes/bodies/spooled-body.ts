import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { NewBody } from './body-store.ts';

/** A body on its way into the bucket: a file until it is whole. */
export class SpooledBody implements NewBody {
  readonly name: string;
  readonly #handle: FileHandle;
  readonly #upload: (size: number, sha256: string) => Promise<void>;
  readonly #hash = createHash('sha256');
  #size = 0;

  constructor(
    name: string,
    handle: FileHandle,
    upload: (size: number, sha256: string) => Promise<void>,
  ) {
    this.name = name;
    this.#handle = handle;
    this.#upload = upload;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    await this.#handle.writeFile(chunk);
    this.#size += chunk.length;
  }

  async finish(): Promise<void> {
    await this.#upload(this.#size, this.#hash.digest('hex'));
    await this.#handle.close();
  }

  async abandon(): Promise<void> {
    await this.#handle.close().catch(() => {});
  }
}
