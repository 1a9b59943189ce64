" ALE: it makes no edits, so a reply comes by the chat's file.

" Languages whose files have the commands of the last reply.
let s:languages = ['markdown', 'text', 'python', 'sh', 'c', 'javascript']

" Have ALE know the server.
function! aish#ale#register() abort
  let g:ale_linters = get(g:, 'ale_linters', {})
  for l:language in get(g:, 'aish_languages', s:languages)
    " ALE takes a list in place of its own choice, so what it would choose is in the list, too.
    let l:chosen = map(ale#linter#Get(l:language), 'v:val.name')
    call ale#linter#Define(l:language, {
          \ 'name': 'aish',
          \ 'lsp': 'stdio',
          \ 'executable': get(g:, 'aish_executable', 'aish-lsp'),
          \ 'command': '%e',
          \ 'project_root': function('aish#root'),
          \ })
    let g:ale_linters[l:language] = l:chosen + ['aish']
  endfor
endfunction

" List what can be done here. The server reads the chat's file, so it is written first.
function! aish#ale#actions(mode) abort
  if empty(a:mode)
    update
    ALECodeAction
  else
    '<,'>ALECodeAction
  endif
endfunction

" Have the server execute a command, by the process that ALE has started for this buffer.
function! aish#ale#execute(command) abort
  if index(map(ale#linter#Get(&filetype), 'v:val.name'), 'aish') < 0
    call aish#tell('no server for this kind of file: go to the chat, :AishChat')
    return
  endif
  update
  let l:uri = ale#util#ToURI(expand('%:p'))
  let l:message = ale#lsp#message#ExecuteCommand(a:command, [{'uri': l:uri}])
  call ale#lsp_linter#SendRequest(bufnr('%'), 'aish', l:message, function('s:answered'))
endfunction

" Tell what the server refused.
function! s:answered(response) abort
  if has_key(a:response, 'error')
    call aish#tell(a:response.error.message)
  endif
endfunction
