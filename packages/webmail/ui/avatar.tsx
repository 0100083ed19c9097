/** A person as a letter on a colour of their own. */
import type { Address } from '../../sdk/src/mail/client.ts';
import { nameOf } from '../reading/stranger-text.ts';

/** An angle on the wheel of colours, the same for an address wherever it is shown. */
function hueOf(address: string): number {
  let sum = 0;
  for (const character of address.toLowerCase()) {
    sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 65_521;
  }
  return sum % 360;
}

export const Avatar = ({ person }: { person: Address | undefined }) => {
  const letter = /[\p{L}\p{N}]/u.exec(nameOf(person ?? {}))?.[0] ?? '?';
  return (
    <span class="avatar" style={{ '--hue': hueOf(person?.address ?? '') }} aria-hidden="true">
      {letter.toUpperCase()}
    </span>
  );
};
