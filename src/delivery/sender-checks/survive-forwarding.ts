/** Whether a message passes DMARC for the next one, when we forward it unchanged. */
import type { Header } from '../../message/message.ts';
import type { SignatureFinding } from './verify-signatures.ts';

/** Fields that are put on top of a message on its way through us. */
const ADDED = [
  'received',
  'return-path',
  'delivered-to',
  'authentication-results',
  'dkim-signature',
  'arc-seal',
  'arc-message-signature',
  'arc-authentication-results',
];

const RESULTS = 'authentication-results';

/**
 * Whether a signature still passes behind us. A signer can sign a name more often than it is there,
 * so that a field of that name cannot be added (RFC 6376 section 5.4.2).
 *
 * @param removedResults whether an Authentication-Results field was removed from the message
 */
export function survivesForwarding(
  { result, signedFields }: SignatureFinding,
  { fields }: Header,
  removedResults: boolean,
): boolean {
  if (result !== 'pass' || (removedResults && signedFields.includes(RESULTS))) return false;
  return ADDED.every((name) => {
    const signed = signedFields.filter((field) => field === name).length;
    return signed === 0 || signed <= fields.filter((field) => field.name === name).length;
  });
}
