// The one place that imports Preact: templates are checked where they are written, and all modules share an instance.
import { h, render, Fragment } from './vendor/preact.mjs';
import htm from './vendor/htm.mjs';

export const html = htm.bind(h);
export { render, Fragment };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useReducer } from './vendor/hooks.mjs';
