/** Signing out: nothing of the session stays for whoever signs in next. */
import { signOut } from './api/client.ts';
import { asApiError } from './api/load.ts';
import { say } from './ui/messages.tsx';
import { endWorks } from './ui/work.tsx';

export async function leave(): Promise<void> {
  endWorks();
  try {
    await signOut();
  } catch (error) {
    say(`Signing out failed, the session ends later: ${asApiError(error).message}`, 'bad');
  }
}
