--- Made from `aish-lsp protocol --json` by `./dev docs`. Do not edit.

local M = {}

---@alias aish.Event aish.StartEvent|aish.TextEvent|aish.ReasoningEvent|aish.CommandEvent|aish.ToolEvent|aish.OutputEvent|aish.StepEvent|aish.NoticeEvent|aish.UsageEvent|aish.EndEvent

---@class aish.About
---@field version string
---@field python string
---@field pythonVersion string
---@field config string

---@class aish.AcceptedCandidate
---@field kind "fact"|"pref"|"context"
---@field content string
---@field tags? string[]
---@field scope? "workspace"|"user"
---@field duplicateOf? integer|nil
---@field flags? string[]

---@class aish.AcceptedIds
---@field ids integer[]

---@class aish.Accuracy
---@field estimated integer
---@field actual integer
---@field errorTokens integer
---@field errorPercent number

---@class aish.Added
---@field added string|nil
---@field active string
---@field models aish.ModelInfo[]

---@class aish.AllowParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field server string
---@field tool? string|nil
---@field scope? "once"|"session"|"always"

---@class aish.ApprovalList
---@field approvals aish.RememberedApproval[]

---@class aish.ApprovalParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field id? string|nil

---@class aish.ApprovalRequest
---@field id string
---@field callId string
---@field session string
---@field kind "command"|"edit"|"tool"
---@field text string
---@field cwd string
---@field risk string
---@field reasons string[]
---@field diff aish.DiffShown|nil
---@field undo string
---@field covers string
---@field remember ("session"|"folder")[]
---@field labels string[]

---@class aish.ApproveParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field commandId string
---@field partialResultToken? string|integer|nil

---@class aish.Approved
---@field approved boolean
---@field remember "session"|"folder"|nil

---@class aish.AskParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field prompt string
---@field range? aish.Range|nil
---@field diagnostics? aish.Problem[]
---@field model? string|nil
---@field ephemeral? boolean
---@field partialResultToken? string|integer|nil

---@class aish.AskResult
---@field turnId string
---@field sessionId string
---@field model string
---@field text string
---@field reasoning string
---@field commands aish.CommandInfo[]
---@field usage aish.Usage|nil
---@field finishReason "stop"|"length"|"tool"|"refusal"|"repetition"|"cancelled"|"timeout"|"denied"|"error"
---@field error table|nil
---@field evictedTurns integer
---@field context aish.ContextReport
---@field attached aish.SentAlong[]

---@class aish.Asked
---@field key string
---@field value any

---@class aish.Begun
---@field turnId string|nil

---@class aish.BegunCommand
---@field commandId string

---@class aish.Breakdown
---@field system integer
---@field memory integer
---@field project integer
---@field summary integer
---@field instructions integer
---@field tools integer
---@field messages integer
---@field reasoning integer

---@class aish.CancelParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field turnId? string|nil

---@class aish.Cancelled
---@field cancelled integer

---@class aish.Candidate
---@field kind "fact"|"pref"|"context"
---@field content string
---@field duplicateOf integer|nil
---@field flags string[]

---@class aish.ChangedFiles
---@field uris string[]

---@class aish.ChatCompleteParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field prefix string

---@class aish.ChatCompletion
---@field label string
---@field insert string
---@field detail string
---@field start integer
---@field kind "command"|"file"|"folder"

---@class aish.ChatCompletions
---@field items aish.ChatCompletion[]
---@field isIncomplete boolean

---@class aish.ChatLineDone
---@field session string
---@field text string
---@field comes "reply"|"output"|"candidates"|nil
---@field result aish.AskResult|aish.RunReport|aish.NorrisResult|aish.Extracted|nil

---@class aish.ChatLineParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field line string
---@field partialResultToken? string|integer|nil

---@class aish.ChatParams
---@field workspace? string|nil
---@field uri? string|nil
---@field prompt? string|nil

---@class aish.ChatPlace
---@field uri string

---@class aish.CommandEvent
---@field kind "command"
---@field command aish.CommandInfo

---@class aish.CommandInfo
---@field id string
---@field text string
---@field line integer
---@field endLine integer
---@field source "cmd"|"fence"
---@field placeholders string[]
---@field risk "safe"|"caution"|"destructive"
---@field reasons string[]

---@class aish.CommandParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field commandId string

---@class aish.Commands
---@field commands aish.CommandInfo[]

---@class aish.Compaction
---@field evictedTurns integer
---@field context aish.ContextReport

---@class aish.CompleteParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field model string
---@field messages aish.PromptMessage[]
---@field partialResultToken? string|integer|nil

---@class aish.Completion
---@field text string
---@field finishReason "stop"|"length"|"tool"|"refusal"|"repetition"|"cancelled"|"timeout"|"denied"|"error"
---@field usage aish.Usage|nil

---@class aish.Connectable
---@field found aish.ConnectableModel[]
---@field providers aish.ConnectableModel[]
---@field small aish.ConnectableModel[]
---@field smallProblem string
---@field smallCommand string

---@class aish.ConnectableModel
---@field choice string
---@field label string
---@field detail string
---@field models string[]
---@field keyVariable string
---@field keys string
---@field sendsTo string
---@field configured string

---@class aish.Connected
---@field name string
---@field reply string
---@field problem string
---@field keyVariable string
---@field models string[]

---@class aish.ContextReport
---@field total integer
---@field tokenBudget integer
---@field contextWindow integer
---@field outputReserve integer
---@field free integer
---@field percent number
---@field basis "actual"|"estimated"
---@field breakdown aish.Breakdown
---@field lastCall aish.LastCall|nil
---@field newSince integer
---@field accuracy aish.Accuracy|nil
---@field compactions integer
---@field tokenizer string

---@class aish.ContextShare
---@field total integer
---@field budget integer

---@class aish.Continued
---@field id string
---@field turns integer

---@class aish.Copied
---@field text string
---@field copied boolean

---@class aish.CostParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field detail? boolean
---@field allSessions? boolean

---@class aish.CostReport
---@field models table
---@field total aish.SlotReport
---@field warnAtDollars number|nil
---@field warnAtTokens integer|nil
---@field capAtDollars number|nil
---@field line string

---@class aish.CountParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field model string
---@field texts? string[]

---@class aish.Counted
---@field tokens integer[]
---@field input integer
---@field output integer

---@class aish.Deleted
---@field deleted integer

---@class aish.DiffShown
---@field uri string
---@field before string
---@field after string
---@field lines string[]

---@class aish.Edited
---@field id integer

---@class aish.EndEvent
---@field kind "end"
---@field finishReason "stop"|"length"|"tool"|"refusal"|"repetition"|"cancelled"|"timeout"|"denied"|"error"
---@field error table|nil

---@class aish.EndedStep
---@field number integer
---@field status string
---@field exitCode integer|nil

---@class aish.Extracted
---@field candidates aish.Candidate[]

---@class aish.Forgotten
---@field forgotten integer

---@class aish.FoundThere
---@field uri string
---@field line integer
---@field text string

---@class aish.History
---@field turns aish.HistoryMessage[]

---@class aish.HistoryMessage
---@field n integer
---@field ts string|nil
---@field role string
---@field content string
---@field exec table[]
---@field attached table[]
---@field model string|nil
---@field finish string|nil
---@field commands table[]
---@field toolCalls table[]
---@field toolCallId string|nil
---@field status string|nil
---@field inForce boolean
---@field turnId string|nil
---@field step aish.EndedStep|nil

---@class aish.Injected
---@field injected integer
---@field dropped integer
---@field characters integer

---@class aish.Items
---@field items aish.Listed[]

---@class aish.LastCall
---@field input integer
---@field output integer
---@field reasoning integer
---@field cacheRead integer
---@field cacheWrite integer
---@field at string
---@field model string

---@class aish.LastInTerminal
---@field command string
---@field cwd string|nil
---@field exitCode integer|nil
---@field output string

---@class aish.Listed
---@field id integer
---@field ts string
---@field kind "fact"|"pref"|"context"
---@field content string
---@field tags string[]
---@field source table|nil
---@field scope "workspace"|"user"
---@field injected boolean

---@class aish.ListedSession
---@field id string
---@field name string|nil
---@field title string|nil
---@field created string|nil
---@field updated string|nil
---@field questions integer
---@field turns integer
---@field model string|nil
---@field cost number|nil
---@field snippet string|nil

---@class aish.LookedUp
---@field items aish.FoundThere[]

---@class aish.LookupRequest
---@field what "diagnostics"|"symbols"|"definition"
---@field uri string|nil
---@field query string
---@field position aish.Position|nil

---@class aish.MemoryAccept
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field candidates aish.AcceptedCandidate[]

---@class aish.MemoryAdd
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field kind "fact"|"pref"|"context"
---@field content string
---@field tags? string[]
---@field scope? "workspace"|"user"
---@field force? boolean

---@class aish.MemoryClear
---@field workspace? string|nil
---@field uri? string|nil
---@field scope? "workspace"|"user"|nil
---@field confirmed? boolean

---@class aish.MemoryEdit
---@field workspace? string|nil
---@field uri? string|nil
---@field id integer
---@field content string
---@field scope? "workspace"|"user"|nil

---@class aish.MemoryForget
---@field workspace? string|nil
---@field uri? string|nil
---@field id integer
---@field scope? "workspace"|"user"|nil

---@class aish.MemoryList
---@field workspace? string|nil
---@field uri? string|nil
---@field scope? "workspace"|"user"|nil
---@field query? string|nil

---@class aish.MemorySummarize
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field partialResultToken? string|integer|nil

---@class aish.ModelAdd
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field choice? string|nil

---@class aish.ModelConnect
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field choice string
---@field model? string|nil
---@field apiKeyEnv? string|nil
---@field default? boolean

---@class aish.ModelInfo
---@field name string
---@field provider string
---@field model string
---@field endpoint string
---@field source "configured"|"found"|"offered"|"built-in"

---@class aish.ModelUse
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field name string

---@class aish.Models
---@field active string
---@field models aish.ModelInfo[]

---@class aish.NorrisParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field goal? string|nil
---@field resume? boolean
---@field maxSteps? integer|nil
---@field allowCaution? boolean
---@field partialResultToken? string|integer|nil

---@class aish.NorrisResult
---@field outcome "complete"|"blocked"|"stopped"|"limit"|"error"
---@field steps integer
---@field summary string

---@class aish.Nothing

---@class aish.NoticeEvent
---@field kind "notice"
---@field level "info"|"warning"|"error"
---@field message string

---@class aish.OutputEvent
---@field kind "output"
---@field commandId string
---@field stream "stdout"|"stderr"
---@field delta string

---@class aish.Position
---@field line integer
---@field character integer

---@class aish.Problem
---@field range aish.Range
---@field message string
---@field severity? integer|nil
---@field source? string|nil
---@field code? string|integer|nil
---@field codeDescription? any
---@field relatedInformation? any
---@field tags? any
---@field data? any

---@class aish.ProjectBlock
---@field block string
---@field files integer
---@field truncated boolean

---@class aish.ProjectParams
---@field workspace? string|nil
---@field uri? string|nil
---@field depth? integer|nil
---@field maxChars? integer|nil

---@class aish.Prompt
---@field messages aish.RequestMessage[]
---@field tools table[]
---@field tokens integer

---@class aish.PromptMessage
---@field role "user"|"assistant"
---@field content string

---@class aish.PromptParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field prompt? string

---@class aish.PutBack
---@field restored string[]
---@field removed string[]
---@field conflicts string[]

---@class aish.Range
---@field start aish.Position
---@field end aish.Position

---@class aish.ReasoningEvent
---@field kind "reasoning"
---@field delta string

---@class aish.RedoParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field conflicts? "ask"|"keep"|"overwrite"

---@class aish.Remembered
---@field id integer

---@class aish.RememberedApproval
---@field id string
---@field what string
---@field scope "session"|"folder"
---@field since string

---@class aish.ReplaceParams
---@field workspace? string|nil
---@field uri? string|nil
---@field turnId string
---@field block? integer

---@class aish.Replaced
---@field applied boolean

---@class aish.RequestMessage
---@field role "system"|"user"|"assistant"|"tool"
---@field content string
---@field toolCalls aish.ToolCall[]
---@field toolCallId string|nil
---@field reasoning aish.StoredReasoning|nil

---@class aish.RetryParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field turnId? string|nil
---@field model? string|nil
---@field partialResultToken? string|integer|nil

---@class aish.RevokeParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field server string
---@field tool? string|nil

---@class aish.Route
---@field class string
---@field why string

---@class aish.RunParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field commandId? string|nil
---@field text? string|nil
---@field edited? string|nil
---@field shell? string
---@field cwd? string|nil
---@field timeout? number|nil
---@field partialResultToken? string|integer|nil

---@class aish.RunReport
---@field commandId string
---@field text string
---@field exitCode integer|nil
---@field signal string|nil
---@field output string
---@field truncated boolean
---@field durationMs integer
---@field finishReason "stop"|"length"|"tool"|"refusal"|"repetition"|"cancelled"|"timeout"|"denied"|"error"
---@field outputUri string|nil
---@field refused boolean

---@class aish.SaveRequest
---@field uris string[]

---@class aish.Saved
---@field id string
---@field name string

---@class aish.SavedFiles
---@field saved string[]

---@class aish.SayParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field text string

---@class aish.SentAlong
---@field kind string
---@field path string
---@field first integer
---@field last integer
---@field cut boolean

---@class aish.ServerParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field server string

---@class aish.SessionDelete
---@field workspace? string|nil
---@field uri? string|nil
---@field id string

---@class aish.SessionFork
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field turnId string
---@field show? boolean

---@class aish.SessionHistory
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field id? string|nil

---@class aish.SessionId
---@field id string

---@class aish.SessionInfo
---@field id string
---@field name string|nil
---@field title string|nil
---@field created string|nil
---@field updated string|nil
---@field questions integer
---@field turns integer
---@field model string|nil
---@field cost number|nil

---@class aish.SessionList
---@field workspace? string|nil
---@field uri? string|nil
---@field query? string|nil

---@class aish.SessionNew
---@field workspace? string|nil
---@field uri? string|nil
---@field show? boolean

---@class aish.SessionResume
---@field workspace? string|nil
---@field uri? string|nil
---@field id? string|nil
---@field show? boolean

---@class aish.SessionSave
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field name string

---@class aish.SessionTarget
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil

---@class aish.Sessions
---@field sessions (aish.SessionInfo|aish.ListedSession)[]

---@class aish.SlotReport
---@field input integer
---@field output integer
---@field reasoning integer
---@field cacheRead integer
---@field cacheWrite integer
---@field calls integer
---@field cost number|nil
---@field local boolean
---@field unpriced boolean

---@class aish.StartEvent
---@field kind "start"
---@field turnId string
---@field model string
---@field route aish.Route
---@field contextTokens integer
---@field tokenBudget integer

---@class aish.Status
---@field model string
---@field busy boolean
---@field context aish.ContextShare
---@field cost number|nil
---@field commands integer
---@field trusted boolean
---@field servers integer

---@class aish.StepEvent
---@field kind "step"
---@field number integer
---@field goal string
---@field status "planned"|"running"|"done"|"failed"|"denied"|"stopped"
---@field plan string
---@field commandIds string[]
---@field callIds string[]
---@field exitCode integer|nil

---@class aish.StoredReasoning
---@field text string
---@field provider string
---@field metadata table

---@class aish.SwitchParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field server string
---@field tool? string|nil
---@field on boolean

---@class aish.Target
---@field workspace? string|nil
---@field uri? string|nil

---@class aish.TerminalRequest

---@class aish.TextEvent
---@field kind "text"
---@field delta string

---@class aish.ToolCall
---@field id string
---@field name string
---@field arguments string
---@field extra table

---@class aish.ToolEvent
---@field kind "tool"
---@field callId string
---@field server string
---@field name string
---@field arguments string
---@field status "pending"|"running"|"done"|"failed"|"denied"
---@field title string
---@field result string|nil
---@field diff string|nil

---@class aish.ToolInfo
---@field name string
---@field description string
---@field tokens integer
---@field on boolean
---@field allowed boolean

---@class aish.ToolList
---@field servers aish.ToolServerInfo[]
---@field offered string[]

---@class aish.ToolServerInfo
---@field name string
---@field on boolean
---@field state string
---@field granted boolean
---@field tools aish.ToolInfo[]
---@field error string|nil

---@class aish.Trust
---@field trusted boolean
---@field requests aish.TrustRequest[]

---@class aish.TrustRequest
---@field what "overlay"|"settings"
---@field name string
---@field asked aish.Asked[]
---@field hash string
---@field granted boolean

---@class aish.UndoParams
---@field workspace? string|nil
---@field uri? string|nil
---@field session? string|nil
---@field conflicts? "ask"|"keep"|"overwrite"
---@field earlier? boolean
---@field id? string|nil

---@class aish.Usage
---@field inputTokens integer
---@field outputTokens integer
---@field reasoningTokens integer
---@field cacheReadTokens integer
---@field cacheWriteTokens integer
---@field cost number|nil

---@class aish.UsageEvent
---@field kind "usage"
---@field inputTokens integer
---@field outputTokens integer
---@field reasoningTokens integer
---@field cacheReadTokens integer
---@field cacheWriteTokens integer
---@field cost number|nil

--- The `:` commands of the chat, each with the words that may follow it.
---@type table<string, { help: string, verbs: string[] }>
M.lines = {
  help = {
    help = "what can be typed here, or what the offline model knows about something",
    verbs = { "all", "offline" },
  },
  retry = {
    help = "ask the last question again; `:retry NAME` asks another model",
    verbs = {},
  },
  prompt = {
    help = "the exact request that would be sent",
    verbs = {},
  },
  run = {
    help = "run suggestion N of the last reply, or a command; its output goes with your next message",
    verbs = {},
  },
  approve = {
    help = "allow, once, what you were asked about and did not answer",
    verbs = {},
  },
  norris = {
    help = "pursue a goal step by step, until it is reached; `:norris resume` goes on",
    verbs = { "stop", "say", "--allow-caution", "resume", "say", "stop" },
  },
  approvals = {
    help = "what you have allowed without being asked again",
    verbs = { "revoke" },
  },
  model = {
    help = "list the models, use one from now on, or add one",
    verbs = { "add" },
  },
  remember = {
    help = "remember a fact in this workspace",
    verbs = {},
  },
  memory = {
    help = "what is remembered across sessions",
    verbs = { "add", "list", "forget", "edit", "clear", "summarize", "accept", "inject" },
  },
  tree = {
    help = "what the model is told about the project",
    verbs = { "refresh", "off", "on" },
  },
  context = {
    help = "where the tokens of the next request go",
    verbs = {},
  },
  reset = {
    help = "forget the conversation; memory, project and costs stay",
    verbs = {},
  },
  compact = {
    help = "summarize now all that was said before the last question",
    verbs = {},
  },
  cost = {
    help = "what was used and what it cost",
    verbs = { "detail", "reset" },
  },
  session = {
    help = "earlier sessions, and how to continue one",
    verbs = { "list", "new", "resume", "fork", "save", "delete", "history" },
  },
  sessions = {
    help = "the sessions of this workspace, or those about TEXT",
    verbs = {},
  },
  resume = {
    help = "continue an earlier session by its number in `:sessions`, its id or name, or the last one",
    verbs = {},
  },
  save = {
    help = "give this session a name",
    verbs = {},
  },
  history = {
    help = "what was said in this session, or in another: a page",
    verbs = {},
  },
  tools = {
    help = "what the model may call, what it costs, and switches for it",
    verbs = { "connect", "disconnect", "allow", "revoke", "on", "off" },
  },
  trust = {
    help = "what this workspace's own settings ask for, and whether you allow it",
    verbs = { "grant", "revoke" },
  },
  undo = {
    help = "take back what the last command did to files; again, the one before it",
    verbs = { "keep", "overwrite", "earlier" },
  },
  redo = {
    help = "do again what was last undone",
    verbs = { "keep", "overwrite" },
  },
}

return M
