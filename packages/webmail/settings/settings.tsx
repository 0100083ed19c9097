/** How this browser uses the webmail. */
import { type FunctionalComponent, type Ref, ref } from 'vue';
import { current } from '../state/accounts.ts';
import * as remembered from '../state/remembered.ts';
import { Dialog } from '../ui/dialog.tsx';

export const isSettingsOpen = ref(false);

const close = () => {
  isSettingsOpen.value = false;
};

export const Settings: FunctionalComponent = () => (
  <Dialog title="Settings" close={close}>
    <form
      class="settings"
      onSubmit={(event) => {
        event.preventDefault();
        close();
      }}
    >
      <Choice label="Colours" choice={remembered.theme} choices={themes} />
      <Switch label="Messages by conversation" isOn={remembered.byThread} />
      <Switch label="Single keys do something" isOn={remembered.singleKeys} />
      <Choice
        label="Time to take a sent mail back"
        choice={remembered.undoSeconds}
        choices={times}
      />
      <Signature />
      <Pictures />
      <div class="buttons">
        <button type="submit" class="main">
          Done
        </button>
      </div>
    </form>
  </Dialog>
);

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
    <label class="setting">
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
  return (
    <label class="setting">
      {label}
      <input
        type="checkbox"
        checked={isOn.value}
        onChange={(event) => {
          isOn.value = (event.target as HTMLInputElement).checked;
        }}
      />
    </label>
  );
}

const Signature: FunctionalComponent = () => {
  const address = current.value?.address ?? '';
  const change = (event: Event) => {
    const text = (event.target as HTMLTextAreaElement).value;
    const { [address]: _before, ...others } = remembered.signatures.value;
    remembered.signatures.value = text ? { ...others, [address]: text } : others;
  };
  return (
    <div class="field">
      <label for="signature">Signature of {address}</label>
      <textarea
        id="signature"
        rows="3"
        maxlength="2000"
        value={remembered.signatures.value[address] ?? ''}
        onChange={change}
      />
    </div>
  );
};

const Pictures: FunctionalComponent = () => {
  const { picturesFrom } = remembered;
  if (picturesFrom.value.length === 0) return null;
  return (
    <div class="field">
      <p>Pictures from elsewhere are shown in mail of:</p>
      <ul class="people">
        {picturesFrom.value.map((address) => (
          <li key={address}>
            {address}
            <button
              type="button"
              class="link"
              aria-label={`Ask again for ${address}`}
              onClick={() => {
                picturesFrom.value = picturesFrom.value.filter((one) => one !== address);
              }}
            >
              Ask again
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
};
