;;; converse.el --- Install the package, ask in the chat, and end Emacs -*- lexical-binding: t -*-

;; It fails where nothing comes.

;;; Code:

(require 'jsonrpc)
(setq native-comp-deferred-compilation nil
      native-comp-jit-compilation nil
      ;; A loaded machine needs more than the ten seconds that Eglot waits.
      jsonrpc-default-request-timeout 60)

(defun converse-headings ()
  "Return how many headings for the user the chat has."
  (save-excursion (how-many "^## You$" (point-min) (point-max))))

(defvar converse-steps
  (list
   (cons "the chat"
         (lambda ()
           (when (and (derived-mode-p 'aish-chat-mode) (eglot-managed-p) (= (converse-headings) 1))
             (goto-char (point-max))
             (insert "how do I list files\n")
             (call-interactively #'aish-send)
             t)))
   (cons "a reply"
         (lambda ()
           (when (= (converse-headings) 2)
             (let ((save-silently t)) (save-buffer))
             (kill-emacs 0)))))
  "What is waited for, and a function that returns non-nil where it came and was answered.")

(defun converse-look (left)
  "Go on with the conversation; give up when LEFT looks are done."
  (with-current-buffer (window-buffer)
    (condition-case problem
        (when (funcall (cdar converse-steps))
          (pop converse-steps))
      (error (converse-fail (error-message-string problem))))
    (when (= left 0)
      (converse-fail (buffer-string))))
  (run-at-time 0.05 nil #'converse-look (1- left)))

(defun converse-fail (why)
  "End Emacs, and say WHY and what was waited for."
  (princ (format "waited for %s: %s\n%s" (caar converse-steps) why
                 (with-current-buffer (messages-buffer) (buffer-string)))
         #'external-debugging-output)
  (kill-emacs 1))

(package-initialize)
(package-install-file (getenv "PACKAGE"))
(require 'aish)
(delete-other-windows)
(setq unread-command-events (listify-key-sequence (kbd "M-x aish-chat RET")))
(converse-look 2400)

;;; converse.el ends here
