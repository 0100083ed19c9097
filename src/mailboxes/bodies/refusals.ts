/** What a caller is told where a body cannot be kept or read now. */
import { isStorageFull } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';

/** Throws an error on; where the disk is full, as the refusal storage_full. */
export function throwOrRefuse(error: unknown): never {
  throw isStorageFull(error) ? noSpace(error) : error;
}

export function noSpace(cause: unknown): Refusal {
  return new Refusal('storage_full', 'there is no space left for this message', { cause });
}

export function refuseToKeep(): Refusal {
  return new Refusal('unavailable', 'no mail above 64 KiB can be kept right now');
}

export function refuseToRead(): Refusal {
  return new Refusal('unavailable', 'the source of this message cannot be read right now');
}
