/** An account: its mailboxes, and what it sent. */
import { FakeMailboxes, type NewAccount, type Surroundings } from './mailboxes.ts';
import { FakeSends } from './sends.ts';

/** An account of the fake server. */
export class FakeAccount extends FakeMailboxes {
  readonly sends: FakeSends;

  constructor(around: Surroundings, account: NewAccount) {
    super(around, account);
    this.sends = new FakeSends(this, around);
  }
}
