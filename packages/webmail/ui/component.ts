/** How components with a state are made. */
import { defineComponent, type RenderFunction, type SetupContext } from 'vue';

/** @param props all of them: Vue has to know their names, which it cannot read from the type */
export function component<Props extends object>(
  props: (keyof Props & string)[],
  setup: (props: Props, context: SetupContext) => RenderFunction,
) {
  return defineComponent<Props>(setup, { props });
}
