/** How this browser uses the webmail. */
import type { Ref } from 'vue';
import { closeOverlay } from '../state/overlay.ts';
import type { Account } from '../state/parts.ts';
import * as remembered from '../state/remembered.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { onText } from '../ui/sets.ts';

const themes = [
  ['system', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;
const times = [
  [0, 'None'],
  [5, '5 seconds'],
  [10, '10 seconds'],
  [30, '30 seconds'],
] as const;

export const Settings = ({ account }: { account: Account }) => (
  <Dialog title="Settings" close={closeOverlay}>
    <Choice label="Colours" choice={remembered.theme} choices={themes} />
    <Switch label="Messages by conversation" isOn={remembered.byThread} />
    <Switch label="Single keys do something" isOn={remembered.singleKeys} />
    <Choice label="Time to take a sent mail back" choice={remembered.undoSeconds} choices={times} />
    <Signature address={account.address} />
    <Pictures />
    <div class="bar wrap last">
      <Button class="main" label="Done" press={closeOverlay} />
    </div>
  </Dialog>
);

interface ChoiceProps<Value extends string | number> {
  readonly label: string;
  readonly choice: Ref<Value>;
  readonly choices: readonly (readonly [value: Value, label: string])[];
}

function Choice<Value extends string | number>({ label, choice, choices }: ChoiceProps<Value>) {
  const choose = (event: Event) => {
    const { selectedIndex } = event.target as HTMLSelectElement;
    choice.value = choices[selectedIndex]?.[0] ?? choice.value;
  };
  return (
    <label class="setting bar apart">
      {label}
      <select onChange={choose}>
        {choices.map(([value, text]) => (
          <option key={value} selected={value === choice.value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function Switch({ label, isOn }: { label: string; isOn: Ref<boolean> }) {
  const turn = (event: Event) => {
    isOn.value = (event.target as HTMLInputElement).checked;
  };
  return (
    <label class="setting bar apart">
      {label}
      <input type="checkbox" checked={isOn.value} onChange={turn} />
    </label>
  );
}

const Signature = ({ address }: { address: string }) => {
  const { signatures } = remembered;
  const change = onText((text) => {
    signatures.value = { ...signatures.value, [address]: text };
  });
  return (
    <label class="field">
      Signature of {address}
      <textarea
        rows="3"
        maxlength="2000"
        value={signatures.value[address] ?? ''}
        onChange={change}
      />
    </label>
  );
};

const Pictures = () => {
  const { picturesFrom } = remembered;
  const forget = (address: string) => {
    picturesFrom.value = picturesFrom.value.filter((one) => one !== address);
  };
  return (
    picturesFrom.value.length > 0 && (
      <div class="field">
        <p>Pictures from elsewhere are shown in mail of:</p>
        <ul>
          {picturesFrom.value.map((address) => (
            <li class="bar apart" key={address}>
              {address}
              <button
                type="button"
                class="link"
                aria-label={`Ask again for ${address}`}
                onClick={() => forget(address)}
              >
                Ask again
              </button>
            </li>
          ))}
        </ul>
      </div>
    )
  );
};
