/** A question that is answered by yes or no, for code that waits for the answer. */
import { type FunctionalComponent, type ShallowRef, shallowRef } from 'vue';
import { Dialog } from '../ui/dialog.tsx';

interface Asked {
  readonly text: string;
  readonly yes: string;
  readonly answer: (isYes: boolean) => void;
}

export interface Questions {
  readonly asked: ShallowRef<Asked | undefined>;
  ask(text: string, yes: string): Promise<boolean>;
}

export function useQuestions(): Questions {
  const asked = shallowRef<Asked>();
  const ask = (text: string, yes: string) =>
    new Promise<boolean>((resolve) => {
      const answer = (isYes: boolean) => {
        asked.value = undefined;
        resolve(isYes);
      };
      asked.value = { text, yes, answer };
    });
  return { asked, ask };
}

export const Question: FunctionalComponent<{ questions: Questions }> = ({ questions }) => {
  const asked = questions.asked.value;
  return (
    asked && (
      <Dialog title={asked.text} close={() => asked.answer(false)}>
        <div class="buttons">
          <button type="button" class="plain" onClick={() => asked.answer(false)}>
            Back
          </button>
          <button type="button" class="main" autofocus onClick={() => asked.answer(true)}>
            {asked.yes}
          </button>
        </div>
      </Dialog>
    )
  );
};
Question.props = ['questions'];
