// A small client of the coordination service on what the SDK's packages generate from the protocol.
import { randomBytes } from 'node:crypto'
import { StatusIds_StatusCode } from '@ydbjs/api/operation'

/** What the server said instead of doing what it was asked for. */
export class Refused extends Error {
	constructor(what, { status, issues }) {
		super(`${what}: ${StatusIds_StatusCode[status]} ${issues.map(({ message }) => message).join('; ')}`)
		this.status = status
	}
}

/** Throws a Refused unless the answer is a success, and returns it. */
export function check(what, answer) {
	if (answer.status !== StatusIds_StatusCode.SUCCESS) {
		throw new Refused(what, answer)
	}
	return answer
}

/**
 * A session on one stream. It answers the server's pings, as a client has to, and ends with its stream: it does not attach
 * again.
 */
export class Session {
	/** How many pings of the server have been answered. */
	pings = 0

	#toSend = [] // requests that the stream has not taken yet
	#wake = () => {}
	#abort = new AbortController()
	#waiters = new Map() // by what they wait for, such as 'createSemaphoreResult 7'
	#early = new Map() // messages that nobody waited for yet
	#lastRequest = 0n
	#ended // once the stream has ended

	static async start(client, path, { timeoutMillis = 10_000n, sessionId = 0n, protectionKey = randomBytes(8), seqNo = 0n } = {}) {
		const session = new Session()
		session.protectionKey = protectionKey
		session.path = path
		session.#send('sessionStart', { path, sessionId, timeoutMillis, protectionKey, seqNo, description: 'compat/js' })
		session.ended = session.#receive(client.session(session.#requests(), { signal: session.#abort.signal }))
		session.ended.catch(() => {}) // whoever waits for an answer hears of it
		session.id = (await session.wait('sessionStarted')).sessionId
		return session
	}

	/** Ends the session, and what it holds. */
	async stop() {
		this.#send('sessionStop', {})
		await this.wait('sessionStopped')
		await this.ended
	}

	/** Drops the stream without a word: the session lives on for its timeout. */
	async drop() {
		this.#abort.abort()
		await this.ended.catch(() => {})
	}

	/** Sends a request, and returns its id, by which wait finds what the server says to it. */
	request(kind, value) {
		const reqId = ++this.#lastRequest
		this.#send(kind, { reqId, ...value })
		return reqId
	}

	/** Sends a request and waits for its result, which has to be a success. */
	async call(kind, value) {
		return check(kind, await this.wait(`${kind}Result`, this.request(kind, value)))
	}

	/** Waits for a message of a kind, and of a request where reqId is given. */
	wait(kind, reqId) {
		const key = keyOf(kind, reqId)
		if (this.#early.has(key)) {
			const message = this.#early.get(key)
			this.#early.delete(key)
			return Promise.resolve(message)
		}
		if (this.#ended) {
			return Promise.reject(this.#ended)
		}
		return new Promise((resolve, reject) => this.#waiters.set(key, { resolve, reject }))
	}

	/** Whether a message has come that wait would return at once. */
	has(kind, reqId) {
		return this.#early.has(keyOf(kind, reqId))
	}

	#send(kind, value) {
		this.#toSend.push({ request: { case: kind, value } })
		this.#wake()
	}

	async *#requests() {
		for (;;) {
			while (this.#toSend.length > 0) {
				yield this.#toSend.shift()
			}
			if (this.#ended) {
				return
			}
			await new Promise((resolve) => (this.#wake = resolve))
		}
	}

	async #receive(stream) {
		try {
			for await (const { response } of stream) {
				this.#take(response)
			}
			this.#end(new Error('the stream has ended'))
		} catch (error) {
			this.#end(error)
			throw error
		}
	}

	#take({ case: kind, value }) {
		if (kind === 'ping') {
			this.#send('pong', { opaque: value.opaque })
			this.pings++
			return
		}
		if (kind === 'failure') {
			throw new Refused(kind, value)
		}
		const key = keyOf(kind, value.reqId)
		const waiter = this.#waiters.get(key)
		this.#waiters.delete(key)
		if (waiter) {
			waiter.resolve(value)
			return
		}
		if (this.#early.has(key)) {
			throw new Error(`${key} came twice`)
		}
		this.#early.set(key, value)
	}

	#end(error) {
		this.#ended = error
		this.#wake()
		for (const { reject } of this.#waiters.values()) {
			reject(error)
		}
		this.#waiters.clear()
	}
}

function keyOf(kind, reqId = 0n) {
	return `${kind} ${reqId}`
}
