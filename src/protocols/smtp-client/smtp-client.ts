/**
 * SMTP and LMTP as a client: a pure protocol (`protocol.ts`) over a socket and its clocks (`connection.ts`);
 * replies and dots for both sides (`text.ts`). Stores nothing.
 */

export {
  type ConnectionTimeouts,
  type Endpoint,
  ownPreface,
  SmtpConnection,
} from './connection.ts';
export { isWritablePath, type Login, type RecipientResult, sizeLimit } from './protocol.ts';
export {
  DotTransparency,
  enhancedOf,
  formatReply,
  isFinalRefusal,
  isInternationalized,
  type Reply,
  SmtpFailure,
} from './text.ts';
