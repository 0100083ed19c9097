/** Plain words for the enhanced status codes of replies (RFC 3463, and those that its registry added). */

const CODE = /\b[245]\.(\d{1,3}\.\d{1,3})\b/;

/** By subject and detail; the class says whether it is for good. */
const WORDS: Readonly<Record<string, string>> = {
  '1.0': 'Something is wrong with the address.',
  '1.1': 'There is no such mailbox.',
  '1.2': 'The domain does not exist, or has no mail server.',
  '1.3': 'The address is not a valid one.',
  '1.6': 'The mailbox has moved, and nobody says where to.',
  '1.7': "The sender's address is not a valid one.",
  '1.8': "The sender's domain does not exist or accepts no mail.",
  '1.10': 'The domain accepts no mail at all.',
  '2.0': 'Something is wrong with the mailbox.',
  '2.1': 'The mailbox is disabled.',
  '2.2': 'The mailbox is full.',
  '2.3': 'The message is larger than the mailbox takes.',
  '2.4': 'The mailing list could not be resolved.',
  '3.0': 'The mail server of the receiver has a fault.',
  '3.1': 'The disk of the mail server is full.',
  '3.2': 'The mail server accepts no mail at the moment.',
  '3.4': 'The message is too large for the mail server.',
  '4.0': 'The network or the DNS has a fault.',
  '4.1': 'No mail server of the receiver answered.',
  '4.2': 'The connection broke.',
  '4.3': 'DNS did not answer.',
  '4.4': 'There is no way to the mail server of the receiver.',
  '4.5': 'The mail server is too busy.',
  '4.6': 'The message goes round in a circle.',
  '4.7': 'It was tried for too long.',
  '5.0': 'The mail server did not understand a command.',
  '5.3': 'There were too many recipients at once.',
  '6.0': 'The mail server does not take the content of the message.',
  '6.7': 'The mail server does not take international addresses.',
  '7.0': 'A rule of the receiver forbids it.',
  '7.1': 'A rule of the receiver forbids it: often its spam filter, a block list or greylisting.',
  '7.8': 'The login was wrong.',
  '7.20': 'The message has no valid DKIM signature.',
  '7.23': 'SPF does not allow this server to send for the domain.',
  '7.25': 'The address of this server has no matching reverse DNS.',
  '7.26': 'The message passed neither SPF nor DKIM.',
  '7.28': 'The receiver gets too much mail from here.',
};

/** What receivers say who refuse an address or a domain because others list it: `blocked using zen.spamhaus.org`. */
const BLOCK_LIST =
  /block ?list|black ?list|dnsbl|\brbl\b|spamhaus|spamcop|barracudacentral|blocked using/i;

/** Whether a reply says that this server, or a domain, is on a block list. */
export function namesBlockList(reply: string): boolean {
  return BLOCK_LIST.test(reply);
}

/** @returns a sentence; undefined where the reply has no code that says something */
export function explainReply(reply: string): string | undefined {
  if (/greylist|graylist/i.test(reply)) {
    return 'The receiver takes mail of an unknown sender only at a later attempt (greylisting).';
  }
  if (namesBlockList(reply)) {
    return 'The address of this server, or a domain in the message, is on a block list: whoever keeps the list takes it off.';
  }
  const [, code] = CODE.exec(reply) ?? [];
  return code === undefined ? undefined : WORDS[code];
}
