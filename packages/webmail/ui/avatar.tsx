/** A person as a letter on a colour of their own. */
import type { FunctionalComponent } from 'vue';
import type { Address } from '../../sdk/src/mail/client.ts';
import { nameOf } from './format.ts';

/** As many as the style sheet has colours. */
const HUES = 8;

function hueOf(address: string): number {
  let sum = 0;
  for (const character of address.toLowerCase()) {
    sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 65_521;
  }
  return sum % HUES;
}

export const Avatar: FunctionalComponent<{ person: Address | undefined }> = ({ person }) => {
  const name = person ? nameOf(person) : '?';
  const letter = /[\p{L}\p{N}]/u.exec(name)?.[0] ?? '?';
  return (
    <span class={['avatar', `hue-${hueOf(person?.address ?? '')}`]} aria-hidden="true">
      {letter.toUpperCase()}
    </span>
  );
};
