package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Everything works without a pointer: the search, the rows and a question.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s, p := signedIn(t)
	c := s.newSession(t, node, "holder", time.Minute)
	for i := range 3 {
		c.acquireNew(fmt.Sprintf("lock-%d", i))
	}
	p.awaitText(".count", "3 of 3 semaphores")
	p.run(input.DispatchKeyEvent(input.KeyRawDown).WithKey("/").WithCode("Slash"))
	p.await("document.activeElement.matches('.search input')")
	p.run(chromedp.KeyEvent("lock-1"))
	p.await("document.querySelectorAll('a.name').length === 1")
	p.run(chromedp.KeyEvent(kb.Escape))
	p.await("document.querySelectorAll('a.name').length === 3")
	p.eval("document.querySelector('a.name').focus()", nil)
	p.run(chromedp.KeyEvent(kb.ArrowDown))
	p.await("document.activeElement === document.querySelectorAll('a.name')[1]")
	p.run(chromedp.KeyEvent(kb.Enter))
	p.awaitText(".chip", "held, 1 of 1")
	p.await("document.activeElement.matches('h1')")
	p.awaitText(".lede", "holder has held it")
	p.click("End session…")
	p.await("document.activeElement.matches('dialog input')")
	p.run(chromedp.KeyEvent(kb.Escape))
	p.await("document.querySelector('dialog') === null")
}

// While the pointer is over the list its rows stay where they are. A button sorts them anew.
func TestRowsStay(t *testing.T) {
	t.Parallel()
	s, p := signedIn(t)
	c := s.newSession(t, node, "holder", time.Minute)
	c.acquireNew("first")
	c.acquireNew("second")
	order := "[...document.querySelectorAll('a.name')].map((a) => a.textContent).join()"
	p.await(order + " === 'first,second'")
	p.run(input.DispatchMouseEvent(input.MouseMoved, 700, 260).WithPointerType(input.Mouse))
	s.newSession(t, node, "waiter", time.Minute).acquire("second", 1, forever)
	p.awaitText(".moved", "moved")
	p.await(order + " === 'first,second'")
	p.awaitText(".row:nth-of-type(2) .queue", "1 waiting") // its figures go on
	p.run(chromedp.Click(".moved", chromedp.ByQuery))
	p.await(order + " === 'second,first'")
}
