/** QUOTA (RFC 9208): an account has one quota for all its mailboxes together, so there is one root, or none. */
import { type Command, No, type Session } from './session.ts';
import { mailbox as writeMailbox } from './write.ts';

/** The name of the root. Not empty: programs that quote nothing could not name it. */
const ROOT = 'account';
/** Octets of one unit of STORAGE (section 5.1). */
const UNIT = 1024;

function quotaCommand(run: Command['run']): Command {
  return { tells: 'no removals', run };
}

export const getQuota = quotaCommand(async function* (session, command) {
  const root = command.space().astring('a quota root');
  command.end();
  const told = root === ROOT ? await writeQuota(session) : undefined;
  if (told === undefined) throw new No('NONEXISTENT', 'There is no such quota root');
  yield told;
  return 'That is all';
});

/** The mailbox need not exist (section 4.1.2). */
export const getQuotaRoot = quotaCommand(async function* (session, command) {
  const name = writeMailbox(command.space().mailbox(), session.isUtf8);
  command.end();
  const told = await writeQuota(session);
  yield told === undefined ? `* QUOTAROOT ${name}\r\n` : `* QUOTAROOT ${name} "${ROOT}"\r\n${told}`;
  return 'That is all';
});

/** Quotas are set by the operator: QUOTASET is not announced. */
export const setQuota = quotaCommand(async () => {
  throw new No('NOPERM', 'The operator sets quotas');
});

async function writeQuota({ services, user }: Session): Promise<string | undefined> {
  const room = await services.mailstore.imap.room(user);
  if (!room) return undefined;
  const [used, limit] = [room.usedBytes, room.quotaBytes].map((octets) => Math.ceil(octets / UNIT));
  return `* QUOTA "${ROOT}" (STORAGE ${used} ${limit})\r\n`;
}
