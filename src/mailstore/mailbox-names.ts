/** The mailboxes that every account of the embedded store has, and how names are compared. */

/** RFC 6154 section 2; the first is where mail arrives. */
export const defaultMailboxes = [
  { name: 'INBOX', specialUse: null },
  { name: 'Sent', specialUse: '\\Sent' },
  { name: 'Drafts', specialUse: '\\Drafts' },
  { name: 'Junk', specialUse: '\\Junk' },
  { name: 'Trash', specialUse: '\\Trash' },
  { name: 'Archive', specialUse: '\\Archive' },
] as const;

/** INBOX is INBOX in any case (RFC 3501 section 5.1); other names are taken to the letter. */
export function canonicalMailboxName(name: string): string {
  return name.length === 5 && name.toUpperCase() === 'INBOX' ? 'INBOX' : name;
}
