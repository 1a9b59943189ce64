;;; aish.el --- An AI shell assistant, by aish-lsp -*- lexical-binding: t -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1") (eglot "1.9"))
;; Keywords: tools, languages

;;; Commentary:

;; The chat is a Markdown file of the project, `.aish/chat.md'.  `aish-chat' opens it and starts
;; its server by Eglot; `aish-send' sends what stands below its last heading; `aish-ask-region'
;; asks about a region of any buffer.  Bind `aish-command-map' to a prefix:
;;
;;     (global-set-key (kbd "C-c a") 'aish-command-map)
;;
;; A project's files are saved, if you agree, before a message or a command is sent, and read again
;; once they have changed on the disk.
;;
;; All of it goes by a class of Eglot's servers of our own, so that no other server is touched.

;;; Code:

(require 'cl-lib)
(require 'eglot)
(require 'jsonrpc)
(require 'project)
(require 'seq)

(defgroup aish nil
  "An AI shell assistant."
  :group 'tools
  :prefix "aish-")

(defcustom aish-command '("aish-lsp")
  "The server, a program and its arguments."
  :type '(repeat string))

(defcustom aish-ask-about-save t
  "Whether to ask before unsaved files of the project are saved for the server.
It reads them from the disk."
  :type 'boolean)

(defclass aish-server (eglot-lsp-server)
  ((working :initform nil :accessor aish-server-working
            :documentation "What goes on: by progress token, its title and its message."))
  "The server of a chat.")

(defun aish--contact (&rest _)
  "Return how the server is started; signal a `user-error' where it is not there."
  (unless (executable-find (car aish-command))
    (user-error "%s is not there: pipx install aish-lsp, or set `aish-command'"
                (car aish-command)))
  (cons 'aish-server aish-command))

(add-to-list 'eglot-server-programs '(aish-chat-mode . aish--contact))

;;; The chat

(defvar aish-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'aish-send-or-run)
    (define-key map (kbd "C-c C-k") #'aish-stop)
    (define-key map (kbd "C-c C-a") #'eglot-code-actions)
    (define-key map (kbd "C-c C-n") #'aish-next-message)
    (define-key map (kbd "C-c C-p") #'aish-previous-message)
    map)
  "The keys of a chat.")

(defvar aish-chat-font-lock-keywords
  '(("^## \\(?:You\\|aish\\)$" . 'font-lock-keyword-face)
    ("^CMD: \\(.*\\)$" 1 'font-lock-function-name-face)
    ("^>.*$" . 'font-lock-comment-face)
    ("`[^`\n]+`" . 'font-lock-string-face))
  "What is colored in a chat.")

;;;###autoload
(define-derived-mode aish-chat-mode text-mode "aish"
  "The chat with aish: write below the last heading and send it."
  (setq-local font-lock-defaults '(aish-chat-font-lock-keywords t))
  (setq-local mode-line-process '(:eval (aish--mode-line)))
  (setq-local project-find-functions (list #'aish--project))
  (add-hook 'eglot-managed-mode-hook #'aish--managed nil t)
  (visual-line-mode))

(put 'aish-chat-mode 'eglot-language-id "markdown")

;;;###autoload
(add-to-list 'auto-mode-alist '("/\\.aish/chat\\(-[0-9]+\\)?\\.md\\'" . aish-chat-mode))

(defvar-local aish--was-served nil
  "Whether a server has managed this chat already.")

(defun aish--managed ()
  "Have a server that follows another one end what that one was writing."
  (when (eglot-managed-p)
    (when aish--was-served
      ;; Eglot opens the document next.
      (run-at-time 0 nil #'aish--when-served (current-buffer)
                   (lambda () (aish-execute "aish.chat.open"))))
    (setq aish--was-served t)))

(defun aish--project (folder)
  "Return the project of this chat, whose file lies in FOLDER, a repository or not."
  ;; While Eglot waits for the server, the buffer's folder is the project's.
  (let ((folder (if buffer-file-name (file-name-directory buffer-file-name) folder)))
    (cons 'transient (file-name-directory (directory-file-name folder)))))

(defun aish--mode-line ()
  "Return what the server does, for the mode line."
  (let* ((server (eglot-current-server))
         (working (and (cl-typep server 'aish-server) (aish-server-working server))))
    (if working
        ;; A percent sign would be a code of the mode line's.
        (string-replace "%" "%%" (concat " " (string-join (remq nil (cdar working)) " ")))
      "")))

(defun aish-next-message (&optional count)
  "Go to the heading of the next message, or of the COUNTth."
  (interactive "p")
  (end-of-line)
  (if (re-search-forward "^## \\(?:You\\|aish\\)$" nil t count)
      (beginning-of-line)
    (goto-char (point-max))))

(defun aish-previous-message (&optional count)
  "Go to the heading of the message before, or of the COUNTth."
  (interactive "p")
  (beginning-of-line)
  (re-search-backward "^## \\(?:You\\|aish\\)$" nil 'move count))

(defun aish--chat-buffer ()
  "Return the buffer of this project's chat; it is made where there is none."
  (let ((folder (expand-file-name ".aish" (project-root (project-current t)))))
    (make-directory folder t)
    (let ((buffer (find-file-noselect (expand-file-name "chat.md" folder))))
      (with-current-buffer buffer
        (when (zerop (buffer-size))
          (insert "## You\n\n")))
      buffer)))

;;;###autoload
(defun aish-chat ()
  "Open the chat of this project, and start its server."
  (interactive)
  (let ((buffer (aish--chat-buffer)))
    (if (derived-mode-p 'prog-mode)
        (pop-to-buffer buffer)
      (switch-to-buffer buffer))
    (goto-char (point-max))
    ;; Eglot would say nothing of a server that is not there before the next command.
    (aish--contact)
    (eglot-ensure)))

(defun aish--when-served (buffer callback &optional tries)
  "Call CALLBACK in BUFFER once a server manages it.
TRIES says how often that was looked at."
  (let ((tries (or tries 0)))
    (cond ((not (buffer-live-p buffer)))
          ((with-current-buffer buffer (eglot-managed-p))
           (with-current-buffer buffer (funcall callback)))
          ((< tries 300)
           (run-at-time 0.1 nil #'aish--when-served buffer callback (1+ tries)))
          (t (message "aish: the server does not answer; M-x eglot-events-buffer")))))

;;; Commands

(defun aish-execute (command &rest arguments)
  "Have the chat's server execute COMMAND with ARGUMENTS, a plist.
Nothing waits for its end."
  (let ((server (eglot-current-server)))
    (unless (cl-typep server 'aish-server)
      (user-error "No server here: open the chat, M-x aish-chat"))
    (eglot--signal-textDocument/didChange)
    (eglot-execute-command
     server command
     (vector (append arguments (list :uri (plist-get (eglot--TextDocumentIdentifier) :uri)))))))

(cl-defmethod eglot-execute-command ((server aish-server) command arguments)
  "Have SERVER execute COMMAND with ARGUMENTS, without waiting for its end."
  (unless (member (format "%s" command) '("aish.cancel" "aish.chat.open"))
    (save-some-buffers (not aish-ask-about-save)
                       (lambda () (memq (current-buffer) (aish--files server)))))
  (jsonrpc-async-request
   server :workspace/executeCommand (list :command (format "%s" command) :arguments arguments)
   :success-fn #'ignore
   ;; A reply may take as long as it likes.
   :timeout nil
   :error-fn (jsonrpc-lambda (&key message &allow-other-keys) (message "aish: %s" message))))

(defun aish--files (server)
  "Return the buffers with files of SERVER's project, but for the chat."
  (let ((root (expand-file-name (project-root (eglot--project server)))))
    (seq-filter (lambda (buffer)
                  (let ((file (buffer-file-name buffer)))
                    (and file
                         (string-prefix-p root file)
                         (not (string-prefix-p (concat root ".aish/") file)))))
                (buffer-list))))

(defun aish--read-again (server)
  "Read the files of SERVER's project again that have changed.
Those with unsaved changes are left."
  (dolist (buffer (aish--files server))
    (unless (or (buffer-modified-p buffer)
                (verify-visited-file-modtime buffer)
                (not (file-exists-p (buffer-file-name buffer))))
      (with-current-buffer buffer
        (let ((inhibit-message t))
          (revert-buffer t t t))))))

(defun aish-send ()
  "Send what stands below the last heading of the chat.
Point goes to its end, where it follows the reply until it is moved."
  (interactive)
  (when (derived-mode-p 'aish-chat-mode)
    (goto-char (point-max)))
  (aish-execute "aish.chat.send"))

(defun aish-send-or-run ()
  "Run the suggestion on this line; where there is none, send the message."
  (interactive)
  (if (save-excursion (beginning-of-line) (looking-at-p "CMD: "))
      (aish-run)
    (aish-send)))

(defun aish--to-output (window)
  "Go to the end of the chat in WINDOW, where output comes, if it is out of sight."
  (with-selected-window window
    (unless (pos-visible-in-window-p (point-max))
      (push-mark nil t)
      (goto-char (point-max)))))

(defun aish-run ()
  "Run the suggestion on this line."
  (interactive)
  (let* ((server (eglot--current-server-or-lose))
         (here (eglot--pos-to-lsp-position (line-beginning-position)))
         (window (selected-window))
         (chat (current-buffer))
         (place (list :textDocument (eglot--TextDocumentIdentifier)
                      :range (list :start here :end here)
                      :context (list :diagnostics []))))
    (eglot--signal-textDocument/didChange)
    (jsonrpc-async-request
     server :textDocument/codeAction place
     :success-fn
     (lambda (actions)
       (let* ((action (seq-find (lambda (one) (string-prefix-p "Run" (plist-get one :title)))
                                actions))
              (command (plist-get action :command)))
         (if command
             (progn
               (when (and (window-live-p window) (eq (window-buffer window) chat))
                 (aish--to-output window))
               (eglot-execute-command server (plist-get command :command)
                                      (plist-get command :arguments)))
           (message "aish: there is nothing to run on this line")))))))

(defun aish-stop ()
  "Stop the reply or the command under way."
  (interactive)
  (aish-execute "aish.cancel"))

(defun aish--about (beginning end)
  "Return what names the text from BEGINNING to END in a question."
  (let ((first (line-number-at-pos beginning t))
        (last (line-number-at-pos (if (> end beginning) (1- end) end) t))
        (root (project-root (project-current t))))
    (if (and buffer-file-name (file-in-directory-p buffer-file-name root))
        (progn
          (when (and (buffer-modified-p)
                     (y-or-n-p "The lines are read from the file.  Save it first? "))
            (save-buffer))
          (format "@%S:%d-%d" (file-relative-name buffer-file-name root) first last))
      (let ((text (buffer-substring-no-properties beginning end)))
        (format "\n\n````\n%s\n````" (string-trim-right text))))))

;;;###autoload
(defun aish-ask-region (beginning end question)
  "Ask QUESTION about the region from BEGINNING to END, in the chat."
  (interactive "r\nsAsk about the region: ")
  (let ((prompt (format "%s %s" question (aish--about beginning end))))
    (aish-chat)
    (aish--when-served (current-buffer)
                       (lambda () (aish-execute "aish.chat.send" :prompt prompt)))))

(defvar aish-command-map
  (let ((map (make-sparse-keymap)))
    (define-key map "o" #'aish-chat)
    (define-key map "s" #'aish-send)
    (define-key map "k" #'aish-stop)
    (define-key map "a" #'eglot-code-actions)
    (define-key map "r" #'aish-ask-region)
    map)
  "The commands of aish, for a prefix of yours.")

;;;###autoload (autoload 'aish-command-map "aish" nil t 'keymap)
(fset 'aish-command-map aish-command-map)

;;; What the server asks

(cl-defmethod eglot-client-capabilities :around ((_server aish-server))
  "Add that questions are asked with all their choices."
  (let ((found (cl-call-next-method)))
    (plist-put found :window
               (append (list :workDoneProgress t
                             :showMessage
                             '(:messageActionItem (:additionalPropertiesSupport :json-false)))
                       (plist-get found :window)))))

(cl-defmethod eglot-handle-request
  ((_ aish-server) (_method (eql window/showMessageRequest)) &rest params)
  "Ask what is in PARAMS.
What does nothing is the default, and to quit is a no."
  (let* ((message (plist-get params :message))
         (actions (plist-get params :actions))
         (titles (mapcar (lambda (action) (plist-get action :title)) actions))
         (no (or (car (member "Cancel" titles)) (car (last titles))))
         (prompt (format "%s (default %s): " (string-join titles ", ") no))
         (window (aish--show message))
         ;; The user may be in the minibuffer.
         (enable-recursive-minibuffers t)
         (choice (unwind-protect
                     (condition-case nil
                         (completing-read prompt titles nil t nil nil no)
                       (quit nil))
                   (when (window-live-p window)
                     (quit-restore-window window 'kill)))))
    (and (member choice titles) (list :title choice))))

(defun aish--show (message)
  "Return a window with all of MESSAGE.
The minibuffer may be too small for it."
  (with-current-buffer (generate-new-buffer "*aish asks*")
    (let ((inhibit-read-only t))
      (erase-buffer)
      (insert message "\n")
      (goto-char (point-min)))
    (special-mode)
    (visual-line-mode)
    ;; Nothing else that is displayed may take its window.
    (display-buffer (current-buffer) '(display-buffer-at-bottom
                                       (window-height . fit-window-to-buffer)
                                       (dedicated . t)))))

;; Emacs 30 asks by this one.
(defvar eglot-confirm-server-edits)

(cl-defmethod eglot-handle-request
  ((server aish-server) (_method (eql workspace/applyEdit)) &rest params)
  "Make the edit in PARAMS of SERVER's at once.
There is no question and no message for each piece of a reply."
  (let ((ends (aish--windows-at-end server))
        (eglot-confirm-server-edits nil)
        (inhibit-message t)
        (message-log-max nil))
    (condition-case failure
        (progn
          (eglot--apply-workspace-edit (plist-get params :edit) nil)
          (dolist (window ends)
            (set-window-point window (with-current-buffer (window-buffer window) (point-max))))
          ;; Eglot would tell it later: an output goes on without waiting for a key.
          (dolist (buffer (eglot--managed-buffers server))
            (with-current-buffer buffer
              (eglot--signal-textDocument/didChange)))
          ;; What changes files ends with a text in the chat.
          (aish--read-again server)
          (list :applied t))
      (error (list :applied :json-false :failureReason (error-message-string failure))))))

(defun aish--windows-at-end (server)
  "Return the windows of SERVER's chat that show its end."
  (seq-filter (lambda (window)
                (with-current-buffer (window-buffer window)
                  (and (derived-mode-p 'aish-chat-mode)
                       (memq (current-buffer) (eglot--managed-buffers server))
                       (= (window-point window) (point-max)))))
              (window-list-1 nil 'nomini t)))

(cl-defmethod eglot-handle-notification
  ((server aish-server) (_method (eql $/progress)) &rest params)
  "Show in the mode line what SERVER does, which is in PARAMS."
  (let* ((token (plist-get params :token))
         (value (plist-get params :value))
         (known (assoc token (aish-server-working server)))
         (message (plist-get value :message)))
    (pcase (plist-get value :kind)
      ("begin" (push (list token (plist-get value :title) message) (aish-server-working server)))
      ("report" (when known (setf (nth 2 known) message)))
      ("end" (setf (aish-server-working server)
                   (assoc-delete-all token (aish-server-working server)))))
    (force-mode-line-update t)))

(provide 'aish)
;;; aish.el ends here
